// com.microsoft EmbedLayerNormalization: a layer normalization of the sum of word, position and segment embeddings.
//   y[b, s] = norm(word[ids[b, s]] + position[position_ids[b, s] or s] + segment[segment_ids[b, s]])
// mask_index[b] is the number of non-zero entries of the mask (mask_index_type 0 without a mask: zeros); embedding_sum
// is what is normalized.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/layer_norm_row.h"

namespace quant {
namespace {

enum Input { kIds, kSegmentIds, kWord, kPosition, kSegment, kGamma, kBeta, kMask, kPositionIds };
enum Output { kY, kMaskIndex, kSum };

Status CheckIds(const Tensor* ids, const Tensor& like, std::string_view what, bool may_broadcast) {
  if (ids == nullptr) return OkStatus();
  const Dims one = {1, like.dims()[1]};
  if (ids->dtype() != DType::kInt32 || (ids->dims() != like.dims() && !(may_broadcast && ids->dims() == one))) {
    return DataError("{} of {} for ids of {}", what, Describe(*ids), Describe(like));
  }
  return OkStatus();
}

StatusOr<int64_t> Width(const KernelContext& context) {
  const Tensor& ids = context.in(kIds);
  if (ids.rank() != 2) return DataError("ids of {}", Describe(ids));
  RETURN_IF_ERROR(CheckIds(&ids, ids, "ids", false));
  RETURN_IF_ERROR(CheckIds(context.input(kSegmentIds), ids, "segment ids", false));
  RETURN_IF_ERROR(CheckIds(context.input(kMask), ids, "a mask", false));
  RETURN_IF_ERROR(CheckIds(context.input(kPositionIds), ids, "position ids", true));
  if ((context.input(kSegmentIds) == nullptr) != (context.input(kSegment) == nullptr)) {
    return DataError("only one of segment ids and segment embedding is there");
  }
  const int64_t width = context.in(kWord).rank() == 2 ? context.in(kWord).dims()[1] : -1;
  for (int i : {int{kWord}, int{kPosition}, int{kSegment}}) {
    const Tensor* table = context.input(i);
    if (table != nullptr && (table->rank() != 2 || table->dims()[1] != width)) {
      return DataError("embeddings of {} and {}", Describe(context.in(kWord)), Describe(*table));
    }
  }
  for (int i : {int{kGamma}, int{kBeta}}) {
    if (context.in(i).dims() != Dims{width}) return DataError("input {} of {}", i, Describe(context.in(i)));
  }
  return width;
}

// One of the three tables.
template <typename T>
struct Table {
  FloatInput<T> values;
  int64_t rows = 0;
  StatusOr<const T*> Row(int64_t id, int64_t width) const {
    if (id < 0 || id >= rows) return DataError("id {} is outside an embedding of {} rows", id, rows);
    return values.data() + id * width;
  }
};

template <typename T>
StatusOr<Table<T>> ReadTable(const KernelContext& context, int input) {
  Table<T> out;
  const Tensor* tensor = context.input(input);
  ASSIGN_OR_RETURN(out.values, FloatInput<T>::Of(context, tensor));
  out.rows = tensor == nullptr ? 0 : tensor->dims()[0];
  return out;
}

template <typename T>
Status Run(KernelContext& context, int64_t width) {
  const Tensor& ids = context.in(kIds);
  const Tensor *segments = context.input(kSegmentIds), *positions = context.input(kPositionIds);
  const DType dtype = context.in(kWord).dtype();
  ASSIGN_OR_RETURN(const Table<T> word, ReadTable<T>(context, kWord));
  ASSIGN_OR_RETURN(const Table<T> position, ReadTable<T>(context, kPosition));
  ASSIGN_OR_RETURN(const Table<T> segment, ReadTable<T>(context, kSegment));
  ASSIGN_OR_RETURN(const auto gamma, FloatInput<T>::Of(context, &context.in(kGamma)));
  ASSIGN_OR_RETURN(const auto beta, FloatInput<T>::Of(context, &context.in(kBeta)));
  const Dims dims = {ids.dims()[0], ids.dims()[1], width};
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, kY, dtype, dims));
  const int64_t length = ids.dims()[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    T* to = y.data() + i * width;
    const int64_t place = positions == nullptr ? i % length : positions->data<int32_t>()[static_cast<size_t>(i % positions->size())];
    ASSIGN_OR_RETURN(const T* w, word.Row(ids.data<int32_t>()[static_cast<size_t>(i)], width));
    ASSIGN_OR_RETURN(const T* p, position.Row(place, width));
    for (int64_t k = 0; k < width; ++k) to[k] = w[k] + p[k];
    if (segments == nullptr) continue;
    ASSIGN_OR_RETURN(const T* s, segment.Row(segments->data<int32_t>()[static_cast<size_t>(i)], width));
    for (int64_t k = 0; k < width; ++k) to[k] += s[k];
  }
  if (context.wanted(kSum)) {
    ASSIGN_OR_RETURN(auto sum, FloatOutput<T>::Make(context, kSum, dtype, dims));
    std::copy_n(y.data(), y.size(), sum.data());
    RETURN_IF_ERROR(sum.Finish());
  }
  const LayerNormRow<T> norm = {gamma.data(), beta.data(), double{context.attributes().Float("epsilon", 1e-12F)}, true};
  ParallelFor(ids.size(), [&](int64_t i) { norm(y.data() + i * width, width, y.data() + i * width); });
  return y.Finish();
}

Status CountMask(KernelContext& context) {
  if (!context.wanted(kMaskIndex)) return OkStatus();
  const Tensor& ids = context.in(kIds);
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(kMaskIndex, DType::kInt32, {ids.dims()[0]}));
  const auto counts = out->mutable_data<int32_t>();
  std::fill(counts.begin(), counts.end(), 0);
  const Tensor* mask = context.input(kMask);
  for (int64_t i = 0; mask != nullptr && i < mask->size(); ++i) {
    counts[static_cast<size_t>(i / ids.dims()[1])] += mask->data<int32_t>()[static_cast<size_t>(i)] != 0;
  }
  return OkStatus();
}

Status EvalEmbedLayerNorm(KernelContext& context) {
  for (int i : {int{kWord}, int{kPosition}, int{kGamma}, int{kBeta}}) {
    if (context.input(i) == nullptr) return DataError("input {} is left out", i);
  }
  for (int i : {int{kPosition}, int{kSegment}, int{kGamma}, int{kBeta}}) {
    if (context.input(i) != nullptr && context.input(i)->dtype() != context.in(kWord).dtype()) {
      return DataError("input {} is {}, not {}", i, NameOf(context.input(i)->dtype()), NameOf(context.in(kWord).dtype()));
    }
  }
  ASSIGN_OR_RETURN(const int64_t width, Width(context));
  RETURN_IF_ERROR(CountMask(context));
  return WithComputeType(context.in(kWord).dtype(), [&](auto zero) { return Run<decltype(zero)>(context, width); });
}

void InferEmbedLayerNorm(InferContext& context) {
  if (context.inputs.size() <= kWord) return;
  const TypeShape &ids = context.inputs[kIds], &word = context.inputs[kWord];
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    TypeShape& out = context.outputs[i];
    out.dtype = i == kMaskIndex ? DType::kInt32 : word.dtype;
    if (!ids.shape || ids.shape->size() != 2) continue;
    if (i == kMaskIndex) {
      out.shape = Shape{(*ids.shape)[0]};
    } else if (word.shape && word.shape->size() == 2) {
      out.shape = Shape{(*ids.shape)[0], (*ids.shape)[1], (*word.shape)[1]};
    }
  }
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .doc = "Layer normalization of the sum of word, position and segment embeddings",
      .inputs = {{"input_ids", "I"},
                 {"segment_ids", "I", true},
                 {"word_embedding", "T"},
                 {"position_embedding", "T"},
                 {"segment_embedding", "T", true},
                 {"gamma", "T"},
                 {"beta", "T"},
                 {"mask", "I", true},
                 {"position_ids", "I", true}},
      .outputs = {{"output", "T"}, {"mask_index", "I", true}, {"embedding_sum", "T", true}},
      .attributes = {{"epsilon", AttributeKind::kFloat}, {"mask_index_type", AttributeKind::kInt}},
      .types = {{"T", {"tensor(float)", "tensor(float16)"}}, {"I", {"tensor(int32)"}}},
      .infer = InferEmbedLayerNorm,
  };
  return row;
}

}  // namespace

const OpDef& EmbedLayerNormalizationOp() {
  static const OpDef def = {
      .name = "EmbedLayerNormalization",
      .domain = "com.microsoft",
      .since = {1},
      .min_inputs = 1,
      .eval = EvalEmbedLayerNorm,
      .role = FloatOnly{},
      .exactness = Exactness::kRounding,
      .index_input = IndexInput{.indices = kIds, .table = kWord, .axis_attribute = ""},
      .schema = &Schema(),
      .summary = "Layer normalization of the sum of word, position and segment embeddings",
  };
  return def;
}

}  // namespace quant
