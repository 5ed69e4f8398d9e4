// Norms of com.microsoft over the last axis of a sum, s = input + skip + bias:
//   SkipLayerNormalization:            y = (s - mean) / sqrt(variance + epsilon) * gamma + beta
//   SkipSimplifiedLayerNormalization:  y = s / sqrt(mean of s * s + epsilon) * gamma
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/infer_shapes.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;

struct NormInputs {
  const Tensor *x, *skip, *gamma, *beta, *bias;  // beta and bias may be null
};

struct NormRows {
  int64_t rows = 0, length = 0, skip_rows = 0;  // row r of the input has row r % skip_rows of skip
};

StatusOr<NormRows> PlanRows(const NormInputs& in) {
  const Dims &dims = in.x->dims(), &skip = in.skip->dims();
  if (dims.size() != 2 && dims.size() != 3) return DataError("input of {} has neither 2 nor 3 axes", ToString(dims));
  Dims one_sample = dims;
  one_sample.front() = 1;
  const bool fits = skip == dims || (dims.size() == 3 && (skip == one_sample || skip == Dims{dims[1], dims[2]}));
  if (!fits) return DataError("skip of {} for an input of {}", ToString(skip), ToString(dims));
  for (const Tensor* parameter : {in.gamma, in.beta, in.bias}) {
    if (parameter != nullptr && parameter->dims() != Dims{dims.back()}) {
      return DataError("a parameter of {} for rows of {}", ToString(parameter->dims()), dims.back());
    }
  }
  if (dims.back() == 0) return DataError("rows of no element");
  return NormRows{in.x->size() / dims.back(), dims.back(), in.skip->size() / dims.back()};
}

// Output `i` where it is wanted; null data else.
Status MakeWanted(KernelContext& context, int i, DType dtype, const Dims& dims, FloatOutput<float>& out, float** data) {
  if (!context.wanted(i)) return OkStatus();
  ASSIGN_OR_RETURN(out, FloatOutput<float>::Make(context, i, dtype, dims));
  *data = out.data();
  return OkStatus();
}

template <bool kSimplified>
Status EvalSkipNorm(KernelContext& context) {
  const NormInputs in = {&context.in(0), &context.in(1), &context.in(2), kSimplified ? nullptr : context.input(3),
                         context.input(kSimplified ? 3 : 4)};
  RETURN_IF_ERROR(SameTypes(context, {1, 2, 3, 4}));
  const DType dtype = in.x->dtype();
  if (dtype == DType::kDouble) return Unsupported("elements of type double are not supported here");
  ASSIGN_OR_RETURN(const NormRows plan, PlanRows(in));
  const double epsilon = context.attributes().Float("epsilon", 1e-12F);
  ASSIGN_OR_RETURN(const auto x, FloatInput<float>::Of(context, in.x));
  ASSIGN_OR_RETURN(const auto skip, FloatInput<float>::Of(context, in.skip));
  ASSIGN_OR_RETURN(const auto gamma, FloatInput<float>::Of(context, in.gamma));
  ASSIGN_OR_RETURN(const auto beta, FloatInput<float>::Of(context, in.beta));
  ASSIGN_OR_RETURN(const auto bias, FloatInput<float>::Of(context, in.bias));
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, 0, dtype, in.x->dims()));
  Dims statistic = in.x->dims();
  statistic.back() = 1;
  FloatOutput<float> mean_out, inverse_out, sum_out;
  float *means = nullptr, *inverses = nullptr, *sums = nullptr;
  RETURN_IF_ERROR(MakeWanted(context, 1, DType::kFloat, statistic, mean_out, &means));
  RETURN_IF_ERROR(MakeWanted(context, 2, DType::kFloat, statistic, inverse_out, &inverses));
  RETURN_IF_ERROR(MakeWanted(context, 3, dtype, in.x->dims(), sum_out, &sums));
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / plan.length);
  ParallelFor(CeilDiv(plan.rows, per_piece), [&](int64_t piece) {
    for (int64_t r = piece * per_piece; r < std::min(plan.rows, (piece + 1) * per_piece); ++r) {
      const float* from = x.data() + r * plan.length;
      const float* other = skip.data() + r % plan.skip_rows * plan.length;
      float* out = y.data() + r * plan.length;
      for (int64_t i = 0; i < plan.length; ++i) out[i] = from[i] + other[i];
      for (int64_t i = 0; bias.data() != nullptr && i < plan.length; ++i) out[i] += bias.data()[i];
      if (sums != nullptr) std::copy_n(out, plan.length, sums + r * plan.length);
      Moments moments;
      if (kSimplified) {
        moments.variance = SumOf(out, plan.length, [](double v) { return v * v; }) / static_cast<double>(plan.length);
      } else {
        moments = MomentsOf(out, plan.length);
      }
      const double inverse = 1 / std::sqrt(moments.variance + epsilon);
      if (means != nullptr) means[r] = static_cast<float>(moments.mean);
      if (inverses != nullptr) inverses[r] = static_cast<float>(inverse);
      const auto shift = static_cast<float>(moments.mean), factor = static_cast<float>(inverse);
      for (int64_t i = 0; i < plan.length; ++i) out[i] = (out[i] - shift) * factor * gamma.data()[i];
      for (int64_t i = 0; beta.data() != nullptr && i < plan.length; ++i) out[i] += beta.data()[i];
    }
  });
  if (sums != nullptr) RETURN_IF_ERROR(sum_out.Finish());
  return y.Finish();
}

void InferSkipNorm(InferContext& context) {
  InferLikeFirst(context);
  if (context.inputs.empty()) return;
  for (size_t i = 1; i < context.outputs.size(); ++i) {
    context.outputs[i] = i == 3 ? context.inputs[0] : RowStatistic(context.inputs[0]);
  }
}

SchemaRow Schema(std::string doc, bool simplified) {
  SchemaRow row = {
      .doc = std::move(doc),
      .inputs = {{"input", "T"}, {"skip", "T"}, {"gamma", "T"}},
      .outputs = {{"output", "T"}, {"mean", "U", true}, {"inv_std_var", "U", true}, {"input_skip_bias_sum", "T", true}},
      .attributes = {{"epsilon", AttributeKind::kFloat}},
      .types = {FloatTypes("T"), {"U", {"tensor(float)"}}},
      .infer = InferSkipNorm};
  if (!simplified) row.inputs.push_back({"beta", "T", true});
  row.inputs.push_back({"bias", "T", true});
  return row;
}

}  // namespace

const OpDef& SkipLayerNormalizationOp() {
  static const SchemaRow schema = Schema("LayerNormalization of a sum over its last axis", false);
  static const OpDef def = {.name = "SkipLayerNormalization",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 3,
                            .eval = EvalSkipNorm<false>,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .schema = &schema,
                            .summary = "LayerNormalization of input plus skip plus bias"};
  return def;
}

const OpDef& SkipSimplifiedLayerNormalizationOp() {
  static const SchemaRow schema = Schema("RMSNormalization of a sum over its last axis", true);
  static const OpDef def = {.name = "SkipSimplifiedLayerNormalization",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 3,
                            .eval = EvalSkipNorm<true>,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .schema = &schema,
                            .summary = "RMSNormalization of input plus skip plus bias"};
  return def;
}

}  // namespace quant
