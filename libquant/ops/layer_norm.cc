// LayerNormalization: y = (x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis` on.
// RMSNormalization, and SimplifiedLayerNormalization, ONNX Runtime's older name for it in the default domain:
//                     y = x / sqrt(mean of x * x + epsilon) * scale.
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/infer_shapes.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {
namespace {

// The input as `rows` rows of `length` elements.
struct RowPlan {
  int64_t axis = 0, rows = 1, length = 1;
};

StatusOr<RowPlan> PlanRows(const KernelContext& context) {
  const Dims& dims = context.in(0).dims();
  const auto rank = static_cast<int64_t>(dims.size());
  RowPlan plan;
  plan.axis = context.attributes().Int("axis", -1);
  if (plan.axis < -rank || plan.axis >= rank) return DataError("axis {} of an input of rank {}", plan.axis, rank);
  if (plan.axis < 0) plan.axis += rank;
  for (int64_t i = 0; i < rank; ++i) (i < plan.axis ? plan.rows : plan.length) *= dims[static_cast<size_t>(i)];
  return plan;
}

// A parameter that may be broadcast to x: read directly where it is one value per element of a row, else expanded.
template <typename T>
struct RowParameter {
  const T* data = nullptr;
  int64_t row_stride = 0;  // 0: every row has the same
  std::vector<T> expanded;
};

template <typename T>
Status ReadParameter(const KernelContext& context, const Tensor* tensor, const RowPlan& plan, FloatInput<T>& input,
                     RowParameter<T>& out) {
  if (tensor == nullptr) return OkStatus();
  const Dims &dims = context.in(0).dims(), &own = tensor->dims();
  const size_t lead = dims.size() - std::min(own.size(), dims.size());
  bool fits = own.size() <= dims.size();
  for (size_t i = 0; fits && i < own.size(); ++i) fits = own[i] == 1 || own[i] == dims[lead + i];
  if (!fits) return DataError("a parameter of {} can't be broadcast to {}", ToString(own), ToString(dims));
  ASSIGN_OR_RETURN(input, FloatInput<T>::Of(context, tensor));
  const Dims row(dims.begin() + plan.axis, dims.end());
  out.data = input.data();
  if (own == row) return OkStatus();
  // Index of each element of x in the parameter.
  const int64_t size = plan.rows * plan.length;
  out.expanded.resize(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i, index = 0, stride = 1;
    for (size_t back = 1; back <= own.size(); ++back) {
      const int64_t dim = dims[dims.size() - back], own_dim = own[own.size() - back];
      if (own_dim != 1) index += rest % dim * stride;
      stride *= own_dim;
      rest /= dim;
    }
    out.expanded[static_cast<size_t>(i)] = input.data()[index];
  }
  out.data = out.expanded.data();
  out.row_stride = plan.length;
  return OkStatus();
}

constexpr int64_t kPieceElements = 16384;

// Calls body(row) for every row, in pieces of rows over threads.
template <typename F>
void ForRows(const RowPlan& plan, F&& body) {
  const int64_t rows = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(plan.length, 1));
  ParallelFor(CeilDiv(plan.rows, rows), [&](int64_t piece) {
    for (int64_t r = piece * rows; r < std::min((piece + 1) * rows, plan.rows); ++r) body(r);
  });
}

// Mean and InvStdDev have x's dims with ones from `axis` on, in the stash type.
Status MakeStash(KernelContext& context, const RowPlan& plan, int index, FloatOutput<float>& out, float** data) {
  if (!context.wanted(index)) return OkStatus();
  const int64_t number = context.attributes().Int("stash_type", 1);
  if (number != 1 && number != 16) return Unsupported("stash_type {} is not supported", number);
  Dims dims = context.in(0).dims();
  std::fill(dims.begin() + plan.axis, dims.end(), 1);
  ASSIGN_OR_RETURN(out, FloatOutput<float>::Make(context, index, DTypeFromNumber(static_cast<int32_t>(number)), dims));
  *data = out.data();
  return OkStatus();
}

Status EvalLayerNorm(KernelContext& context) {
  const Tensor& x = context.in(0);
  RETURN_IF_ERROR(SameTypes(context, {1, 2}));
  ASSIGN_OR_RETURN(const RowPlan plan, PlanRows(context));
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  FloatOutput<float> mean_out, inverse_out;
  float *means = nullptr, *inverses = nullptr;
  RETURN_IF_ERROR(MakeStash(context, plan, 1, mean_out, &means));
  RETURN_IF_ERROR(MakeStash(context, plan, 2, inverse_out, &inverses));
  const Status done = WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    FloatInput<T> scale_input, bias_input;
    RowParameter<T> scale, bias;
    RETURN_IF_ERROR(ReadParameter(context, &context.in(1), plan, scale_input, scale));
    RETURN_IF_ERROR(ReadParameter(context, context.input(2), plan, bias_input, bias));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    ForRows(plan, [&](int64_t r) {
      const T* in = xs.data() + r * plan.length;
      T* out = y.data() + r * plan.length;
      const Moments moments = MomentsOf(in, plan.length);
      const double inverse = 1 / std::sqrt(moments.variance + epsilon);
      if (means != nullptr) means[r] = static_cast<float>(moments.mean);
      if (inverses != nullptr) inverses[r] = static_cast<float>(inverse);
      const T shift = static_cast<T>(moments.mean), factor = static_cast<T>(inverse);
      const T* scales = scale.data + r * scale.row_stride;
      for (int64_t i = 0; i < plan.length; ++i) out[i] = (in[i] - shift) * factor * scales[i];
      const T* biases = bias.data + r * bias.row_stride;
      for (int64_t i = 0; bias.data != nullptr && i < plan.length; ++i) out[i] += biases[i];
    });
    return y.Finish();
  });
  RETURN_IF_ERROR(done);
  if (means != nullptr) RETURN_IF_ERROR(mean_out.Finish());
  if (inverses != nullptr) RETURN_IF_ERROR(inverse_out.Finish());
  return OkStatus();
}

Status EvalRmsNorm(KernelContext& context) {
  const Tensor &x = context.in(0), &scale_tensor = context.in(1);
  ASSIGN_OR_RETURN(const RowPlan plan, PlanRows(context));
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  FloatOutput<float> inverse_out;
  float* inverses = nullptr;
  RETURN_IF_ERROR(MakeStash(context, plan, 1, inverse_out, &inverses));
  const Status done = WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    FloatInput<T> scale_input;
    RowParameter<T> scale;
    RETURN_IF_ERROR(ReadParameter(context, &scale_tensor, plan, scale_input, scale));
    // The output has the scale's type, which may be another one.
    const DType dtype = scale_tensor.dtype();
    if (std::is_same_v<T, double> && dtype != DType::kDouble) return Unsupported("a {} scale", NameOf(dtype));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, dtype, x.dims()));
    ForRows(plan, [&](int64_t r) {
      const T* in = xs.data() + r * plan.length;
      const double square = SumOf(in, plan.length, [](double v) { return v * v; });
      const double mean = square / static_cast<double>(std::max<int64_t>(plan.length, 1));
      const double inverse = 1 / std::sqrt(mean + epsilon);
      if (inverses != nullptr) inverses[r] = static_cast<float>(inverse);
      const T factor = static_cast<T>(inverse);
      const T* scales = scale.data + r * scale.row_stride;
      T* out = y.data() + r * plan.length;
      for (int64_t i = 0; i < plan.length; ++i) out[i] = in[i] * factor * scales[i];
    });
    return y.Finish();
  });
  RETURN_IF_ERROR(done);
  return inverses != nullptr ? inverse_out.Finish() : OkStatus();
}

void InferSimplified(InferContext& context) {
  if (context.inputs.size() < 2 || context.outputs.empty()) return;
  const TypeShape& x = context.inputs[0];
  context.outputs[0] = {context.inputs[1].dtype, x.shape};
  if (context.outputs.size() > 1 && context.attributes.Int("axis", -1) == -1) context.outputs[1] = RowStatistic(x);
}

const SchemaRow& SimplifiedSchema() {
  static const std::vector<std::string> floats = {"tensor(float16)", "tensor(float)", "tensor(double)",
                                                  "tensor(bfloat16)"};
  static const SchemaRow row = {
      .doc = "Division by the root mean square over the last axes, with scale",
      .inputs = {{"X", "T"}, {"scale", "V"}},
      .outputs = {{"Y", "V"}, {"inv_std_var", "U", true}},
      .attributes = {{"axis", AttributeKind::kInt},
                     {"epsilon", AttributeKind::kFloat},
                     {"stash_type", AttributeKind::kInt}},
      .types = {{"T", floats}, {"V", floats}, {"U", {"tensor(float)", "tensor(double)"}}},
      .infer = InferSimplified,
  };
  return row;
}

}  // namespace

const OpDef& LayerNormalizationOp() {
  static const OpDef def = {
      .name = "LayerNormalization",
      .since = {17},
      .min_inputs = 2,
      .eval = EvalLayerNorm,
      .role = FloatOnly{},
      .exactness = Exactness::kRounding,
      .summary = "Normalisation over the last axes, with scale and bias",
  };
  return def;
}

const OpDef& RMSNormalizationOp() {
  static const OpDef def = {
      .name = "RMSNormalization",
      .since = {23},
      .min_inputs = 2,
      .eval = EvalRmsNorm,
      .role = FloatOnly{},
      .exactness = Exactness::kRounding,
      .summary = "Division by the root mean square over the last axes, with scale",
  };
  return def;
}

const OpDef& SimplifiedLayerNormalizationOp() {
  static const OpDef def = {
      .name = "SimplifiedLayerNormalization",
      .since = {1},
      .min_inputs = 2,
      .eval = EvalRmsNorm,
      .role = FloatOnly{},
      .exactness = Exactness::kRounding,
      .schema = &SimplifiedSchema(),
      .summary = "Division by the root mean square over the last axes, with scale",
  };
  return def;
}

}  // namespace quant
