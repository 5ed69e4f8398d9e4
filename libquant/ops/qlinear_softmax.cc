// com.microsoft QLinearSoftmax: y = saturate(round(softmax(x) * n) + y_zero_point), where n is 1 / y_scale rounded
// down, as in ONNX Runtime. Attribute `opset` says which Softmax is meant: below 13 all axes from `axis` (default 1) on
// are normalised together, from 13 on one is (default -1).
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/infer_shapes.h"
#include "libquant/ops/qlinear.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;

// The input as [outer, length, inner], normalised along `length`.
struct SoftmaxPlan {
  int64_t outer = 1, length = 1, inner = 1;
};

StatusOr<SoftmaxPlan> PlanSoftmax(const KernelContext& context) {
  const Dims& dims = context.in(0).dims();
  const bool one_axis = context.attributes().Int("opset", 13) >= 13;
  ASSIGN_OR_RETURN(const int64_t axis,
                   NormalizeAxis(context.attributes().Int("axis", one_axis ? -1 : 1), context.in(0).rank()));
  const auto a = static_cast<size_t>(axis);
  SoftmaxPlan plan;
  plan.outer = ProductOf(dims, 0, a);
  plan.length = ProductOf(dims, a, one_axis ? a + 1 : dims.size());
  plan.inner = one_axis ? ProductOf(dims, a + 1, dims.size()) : 1;
  return plan;
}

// Elements at x[0], x[step], ..., as differences from the largest code: exponentials[255 - difference] is looked up.
void SoftmaxLine(const uint8_t* x, int64_t length, int64_t step, uint8_t flip,
                 const std::array<float, 256>& exponentials, float levels, const CodeScale& y_scale, uint8_t* y) {
  uint8_t largest = 0;
  for (int64_t i = 0; i < length; ++i) largest = std::max<uint8_t>(largest, x[i * step] ^ flip);
  const auto exponential = [&](int64_t i) {
    return exponentials[static_cast<size_t>(largest - static_cast<uint8_t>(x[i * step] ^ flip))];
  };
  float sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += exponential(i);
  const CodeRange range = CodeRangeOf(y_scale.dtype);
  const auto low = static_cast<float>(range.min - y_scale.zero_point);
  const auto high = static_cast<float>(range.max - y_scale.zero_point);
  for (int64_t i = 0; i < length; ++i) {
    const float value = std::rint(exponential(i) * levels / sum);
    y[i * step] = static_cast<uint8_t>(static_cast<int32_t>(value > low ? (value < high ? value : high) : low) +
                                       y_scale.zero_point);
  }
}

Status EvalQLinearSoftmax(KernelContext& context) {
  RETURN_IF_ERROR(RequireInputs(context, {3}));
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const SoftmaxPlan plan, PlanSoftmax(context));
  ASSIGN_OR_RETURN(const CodeScale x_scale, ReadCodeScale(context.in(1), context.input(2), x.dtype()));
  ASSIGN_OR_RETURN(const CodeScale y_scale, ReadCodeScale(context.in(3), context.input(4), x.dtype()));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), x.dims()));
  if (x.size() == 0) return OkStatus();
  std::array<float, 256> exponentials;
  for (size_t d = 0; d < 256; ++d) {
    exponentials[d] = static_cast<float>(std::exp(-static_cast<double>(d) * double{x_scale.scale}));
  }
  const float levels = std::floor(1.0F / y_scale.scale);
  const uint8_t flip = x.dtype() == DType::kInt8 ? 0x80 : 0;
  const uint8_t* in = x.data<uint8_t>().data();
  uint8_t* out = y->mutable_data<uint8_t>().data();
  const int64_t lines = plan.outer * plan.inner, per_piece = std::max<int64_t>(1, kPieceElements / plan.length);
  ParallelFor(CeilDiv(lines, per_piece), [&](int64_t piece) {
    for (int64_t line = piece * per_piece; line < std::min(lines, (piece + 1) * per_piece); ++line) {
      const int64_t at = line / plan.inner * plan.length * plan.inner + line % plan.inner;
      SoftmaxLine(in + at, plan.length, plan.inner, flip, exponentials, levels, y_scale, out + at);
    }
  });
  return OkStatus();
}

}  // namespace

const OpDef& QLinearSoftmaxOp() {
  static const SchemaRow schema = {.doc = "Softmax of a quantized tensor, quantized",
                                   .inputs = {{"X", "T"},
                                              {"X_scale", "tensor(float)"},
                                              {"x_zero_point", "T", true},
                                              {"y_scale", "tensor(float)"},
                                              {"y_zero_point", "T"}},
                                   .outputs = {{"Y", "T"}},
                                   .attributes = {{"axis", AttributeKind::kInt}, {"opset", AttributeKind::kInt, true}},
                                   .types = {{"T", {"tensor(uint8)", "tensor(int8)"}}},
                                   .infer = InferLikeFirst};
  static const OpDef def =
      QLinear("QLinearSoftmax", 2, EvalQLinearSoftmax, schema, "Softmax of a quantized tensor along an axis");
  return def;
}

}  // namespace quant
