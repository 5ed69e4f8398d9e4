// com.microsoft EmbedLayerNormalization: the sum of a word's, a position's and (optionally) a segment's embedding,
// normalised over the last axis:
//   s = word[input_ids] + position[position_ids or step] + segment[segment_ids]
//   y = (s - mean) / sqrt(variance + epsilon) * gamma + beta
// mask_index counts each sample's ones of the mask; it is 0 without a mask.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/infer_shapes.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {
namespace {

enum Input { kIds, kSegments, kWord, kPosition, kSegment, kGamma, kBeta, kMask, kPositionIds };
enum Output { kY, kMaskIndex, kSum };

constexpr int64_t kPieceElements = 16384;

struct Plan {
  int64_t batch = 0, length = 0, size = 0;
};

// A table and the row of it that each token has.
struct Lookup {
  FloatInput<float> table;
  std::vector<int64_t> rows;  // empty: no table
};

Status CheckRows(const std::vector<int64_t>& rows, const Tensor& table) {
  for (int64_t row : rows) {
    if (row < 0 || row >= table.dims()[0]) return DataError("index {} is outside a table of {}", row, table.dims()[0]);
  }
  return OkStatus();
}

StatusOr<Plan> PlanEmbedding(const KernelContext& context) {
  for (int i : {kWord, kPosition, kGamma, kBeta}) {
    if (context.input(i) == nullptr) return DataError("input {} is not there", i);
  }
  const Dims &ids = context.in(kIds).dims(), &word = context.in(kWord).dims();
  if (ids.size() != 2) return DataError("input_ids of {} has not 2 axes", ToString(ids));
  if (word.size() != 2 || word[1] < 1) return DataError("a table of {}", ToString(word));
  const Plan plan = {ids[0], ids[1], word[1]};
  if ((context.input(kSegments) == nullptr) != (context.input(kSegment) == nullptr)) {
    return DataError("only one of segment_ids and segment_embedding is there");
  }
  const DType dtype = context.in(kWord).dtype();
  if (dtype != DType::kFloat && dtype != DType::kFloat16) return Unsupported("tables of type {}", NameOf(dtype));
  for (int i : {kPosition, kSegment, kGamma, kBeta}) {
    const Tensor* t = context.input(i);
    if (t == nullptr) continue;
    const bool table = i == kPosition || i == kSegment;
    if (t->rank() != (table ? 2 : 1) || t->dims().back() != plan.size || t->dtype() != dtype) {
      return DataError("input {} is {} beside a table of {}", i, Describe(*t), Describe(context.in(kWord)));
    }
  }
  for (int i : {kSegments, kMask}) {
    if (const Tensor* t = context.input(i); t != nullptr && t->dims() != ids) {
      return DataError("input {} of {} beside input_ids of {}", i, ToString(t->dims()), ToString(ids));
    }
  }
  return plan;
}

Status ReadLookup(const KernelContext& context, int ids, int table, Lookup& out) {
  if (context.input(table) == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(out.table, FloatInput<float>::Of(context, context.input(table)));
  ASSIGN_OR_RETURN(out.rows, IntsOf(*context.input(ids)));
  return CheckRows(out.rows, *context.input(table));
}

// Steps count from 0 where there are no position_ids; those of one sample serve all.
Status ReadPositions(const KernelContext& context, const Plan& plan, Lookup& out) {
  const Tensor* ids = context.input(kPositionIds);
  ASSIGN_OR_RETURN(out.table, FloatInput<float>::Of(context, context.input(kPosition)));
  std::vector<int64_t> steps(static_cast<size_t>(plan.length));
  std::iota(steps.begin(), steps.end(), int64_t{0});
  if (ids != nullptr) {
    if (ids->dims() != Dims{plan.batch, plan.length} && ids->dims() != Dims{1, plan.length}) {
      return DataError("position_ids of {} for {} samples of {}", ToString(ids->dims()), plan.batch, plan.length);
    }
    ASSIGN_OR_RETURN(steps, IntsOf(*ids));
  }
  RETURN_IF_ERROR(CheckRows(steps, *context.input(kPosition)));
  out.rows.resize(static_cast<size_t>(plan.batch * plan.length));
  for (size_t i = 0; i < out.rows.size(); ++i) out.rows[i] = steps[i % steps.size()];
  return OkStatus();
}

Status CountMask(KernelContext& context, const Plan& plan) {
  if (!context.wanted(kMaskIndex)) return OkStatus();
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(kMaskIndex, DType::kInt32, {plan.batch}));
  const auto counts = out->mutable_data<int32_t>();
  std::fill(counts.begin(), counts.end(), 0);
  const Tensor* mask = context.input(kMask);
  if (mask == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, IntsOf(*mask));
  for (size_t i = 0; i < numbers.size(); ++i) counts[i / static_cast<size_t>(plan.length)] += numbers[i] == 1;
  return OkStatus();
}

Status EvalEmbedLayerNorm(KernelContext& context) {
  ASSIGN_OR_RETURN(const Plan plan, PlanEmbedding(context));
  Lookup word, position, segment;
  RETURN_IF_ERROR(ReadLookup(context, kIds, kWord, word));
  RETURN_IF_ERROR(ReadPositions(context, plan, position));
  RETURN_IF_ERROR(ReadLookup(context, kSegments, kSegment, segment));
  RETURN_IF_ERROR(CountMask(context, plan));
  ASSIGN_OR_RETURN(const auto gamma, FloatInput<float>::Of(context, context.input(kGamma)));
  ASSIGN_OR_RETURN(const auto beta, FloatInput<float>::Of(context, context.input(kBeta)));
  const double epsilon = context.attributes().Float("epsilon", 1e-12F);
  const DType dtype = context.in(kWord).dtype();
  const Dims dims = {plan.batch, plan.length, plan.size};
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, kY, dtype, dims));
  FloatOutput<float> sum_out;
  const bool want_sum = context.wanted(kSum);
  if (want_sum) {
    ASSIGN_OR_RETURN(sum_out, FloatOutput<float>::Make(context, kSum, dtype, dims));
  }
  const int64_t rows = plan.batch * plan.length, per_piece = std::max<int64_t>(1, kPieceElements / plan.size);
  ParallelFor(CeilDiv(rows, per_piece), [&](int64_t piece) {
    for (int64_t r = piece * per_piece; r < std::min(rows, (piece + 1) * per_piece); ++r) {
      const auto row = [&](const Lookup& l) { return l.table.data() + l.rows[static_cast<size_t>(r)] * plan.size; };
      const float *words = row(word), *positions = row(position);
      float* out = y.data() + r * plan.size;
      for (int64_t i = 0; i < plan.size; ++i) out[i] = words[i] + positions[i];
      if (!segment.rows.empty()) {
        const float* segments = row(segment);
        for (int64_t i = 0; i < plan.size; ++i) out[i] += segments[i];
      }
      if (want_sum) std::copy_n(out, plan.size, sum_out.data() + r * plan.size);
      const Moments moments = MomentsOf(out, plan.size);
      const auto shift = static_cast<float>(moments.mean);
      const auto factor = static_cast<float>(1 / std::sqrt(moments.variance + epsilon));
      for (int64_t i = 0; i < plan.size; ++i) {
        out[i] = (out[i] - shift) * factor * gamma.data()[i] + beta.data()[i];
      }
    }
  });
  if (want_sum) RETURN_IF_ERROR(sum_out.Finish());
  return y.Finish();
}

void InferEmbedLayerNorm(InferContext& context) {
  if (context.inputs.size() <= kWord || context.outputs.empty()) return;
  const TypeShape &ids = context.inputs[kIds], &word = context.inputs[kWord];
  const bool known = ids.shape && ids.shape->size() == 2 && word.shape && word.shape->size() == 2;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    TypeShape& out = context.outputs[i];
    out.dtype = i == kMaskIndex ? DType::kInt32 : word.dtype;
    if (!known) continue;
    out.shape = Shape{(*ids.shape)[0]};
    if (i != kMaskIndex) out.shape = Shape{(*ids.shape)[0], (*ids.shape)[1], (*word.shape)[1]};
  }
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .doc = "LayerNormalization of summed word, position and segment embeddings",
      .inputs = {{"input_ids", "T1"},
                 {"segment_ids", "T1", true},
                 {"word_embedding", "T"},
                 {"position_embedding", "T"},
                 {"segment_embedding", "T", true},
                 {"gamma", "T"},
                 {"beta", "T"},
                 {"mask", "T1", true},
                 {"position_ids", "T1", true}},
      .outputs = {{"output", "T"}, {"mask_index", "T1", true}, {"embedding_sum", "T", true}},
      .attributes = {{"epsilon", AttributeKind::kFloat}, {"mask_index_type", AttributeKind::kInt}},
      .types = {{"T1", {"tensor(int32)"}}, {"T", {"tensor(float)", "tensor(float16)"}}},
      .infer = InferEmbedLayerNorm};
  return row;
}

}  // namespace

const OpDef& EmbedLayerNormalizationOp() {
  static const OpDef def = {.name = "EmbedLayerNormalization",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 1,
                            .eval = EvalEmbedLayerNorm,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .index_input = IndexInput{.indices = kIds, .table = kWord, .axis_attribute = ""},
                            .schema = &Schema(),
                            .summary = "Summed word, position and segment embeddings, normalised"};
  return def;
}

}  // namespace quant
