// com.microsoft's activations, of x plus a bias along the last axis where there is one:
//   Gelu, BiasGelu   x / 2 * (1 + erf(x / sqrt(2)))
//   FastGelu         x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//   QuickGelu        x * sigmoid(alpha * x)
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;

// y = f(x + bias), f(T) -> T.
template <typename F>
Status MapBiased(KernelContext& context, const F& f) {
  const Tensor& x = context.in(0);
  const Tensor* bias = context.input(1);
  RETURN_IF_ERROR(SameTypes(context, {1}));
  if (bias != nullptr && (x.rank() < 1 || bias->dims() != Dims{x.dims().back()})) {
    return DataError("a bias of {} for {}", ToString(bias->dims()), ToString(x.dims()));
  }
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto b, FloatInput<T>::Of(context, bias));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    const int64_t width = b.data() == nullptr ? x.size() : x.dims().back();
    if (x.size() == 0) return OkStatus();
    ParallelFor(CeilDiv(x.size(), kPieceElements), [&](int64_t piece) {
      const int64_t end = std::min(x.size(), (piece + 1) * kPieceElements);
      for (int64_t i = piece * kPieceElements; i < end; ++i) {
        out.data()[i] = f(b.data() == nullptr ? in.data()[i] : in.data()[i] + b.data()[i % width]);
      }
    });
    return out.Finish();
  });
}

Status EvalErfGelu(KernelContext& context) {
  return MapBiased(context, [](auto v) {
    using T = decltype(v);
    return T{0.5} * v * (1 + std::erf(v * T{0.70710678118654752440}));
  });
}

Status EvalFastGelu(KernelContext& context) {
  return MapBiased(context, [](auto v) {
    using T = decltype(v);
    return T{0.5} * v * (1 + std::tanh(T{0.7978845608028654} * (v + T{0.044715} * v * v * v)));
  });
}

Status EvalQuickGelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.702F);
  return MapBiased(context, [alpha](auto v) {
    using T = decltype(v);
    return v / (1 + std::exp(-static_cast<T>(alpha) * v));
  });
}

void InferLikeInput(InferContext& context) {
  if (!context.inputs.empty() && !context.outputs.empty()) context.outputs[0] = context.inputs[0];
}

// 0: none, 1: may be left out, 2: must be there.
SchemaRow Schema(std::string doc, int bias, std::vector<AttributeRow> attributes) {
  SchemaRow row = {.doc = std::move(doc),
                   .inputs = {{"X", "T"}},
                   .outputs = {{"Y", "T"}},
                   .attributes = std::move(attributes),
                   .types = {{"T", {"tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(double)"}}},
                   .infer = InferLikeInput};
  if (bias > 0) row.inputs.push_back({"bias", "T", bias == 1});
  return row;
}

OpDef Activation(std::string_view name, int min_inputs, Status (*eval)(KernelContext&), const SchemaRow& schema,
                 std::string_view summary) {
  return {.name = name,
          .domain = "com.microsoft",
          .since = {1},
          .min_inputs = min_inputs,
          .eval = eval,
          .role = FloatOnly{},
          .exactness = Exactness::kTranscendental,
          .schema = &schema,
          .summary = summary};
}

}  // namespace

const OpDef& MicrosoftGeluOp() {
  static const SchemaRow schema = Schema("Gaussian error linear unit", 0, {});
  static const OpDef def = Activation("Gelu", 1, EvalErfGelu, schema, "Gaussian error linear unit");
  return def;
}
const OpDef& BiasGeluOp() {
  static const SchemaRow schema = Schema("Gaussian error linear unit of a sum with a bias", 2, {});
  static const OpDef def = Activation("BiasGelu", 2, EvalErfGelu, schema, "Gelu of a sum with a bias");
  return def;
}
const OpDef& FastGeluOp() {
  static const SchemaRow schema = Schema("Gaussian error linear unit by tanh, of a sum with a bias", 1, {});
  static const OpDef def = Activation("FastGelu", 1, EvalFastGelu, schema, "Gelu by tanh, of a sum with a bias");
  return def;
}
const OpDef& QuickGeluOp() {
  static const SchemaRow schema = Schema("Gelu by a sigmoid", 0, {{"alpha", AttributeKind::kFloat}});
  static const OpDef def = Activation("QuickGelu", 1, EvalQuickGelu, schema, "Gelu by a sigmoid");
  return def;
}

}  // namespace quant
