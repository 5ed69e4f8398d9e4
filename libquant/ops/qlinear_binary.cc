// com.microsoft QLinearAdd and QLinearMul on 8-bit codes, in float32 with one rounding as ONNX Runtime has them:
//   add    c = round(a * ra + b * rb + (c_zero - ra * a_zero - rb * b_zero))     ra = a_scale / c_scale, rb likewise
//   mul    c = round((a - a_zero) * (b - b_zero) * r + c_zero)                   r = a_scale * b_scale / c_scale
#include <cmath>

#include "libquant/ops/broadcast.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/qlinear.h"

namespace quant {
namespace {

enum Input { kA, kAScale, kAZero, kB, kBScale, kBZero, kCScale, kCZero };

struct Sum {
  float a_ratio, b_ratio, rest;

  Sum(const CodeScale& a, const CodeScale& b, const CodeScale& c)
      : a_ratio(a.scale / c.scale),
        b_ratio(b.scale / c.scale),
        rest(static_cast<float>(c.zero_point) -
             (a_ratio * static_cast<float>(a.zero_point) + b_ratio * static_cast<float>(b.zero_point))) {}
  float operator()(int32_t a, int32_t b) const {
    return std::fma(static_cast<float>(a), a_ratio, std::fma(static_cast<float>(b), b_ratio, rest));
  }
};

struct Product {
  int32_t a_zero, b_zero;
  float ratio, c_zero;

  Product(const CodeScale& a, const CodeScale& b, const CodeScale& c)
      : a_zero(a.zero_point),
        b_zero(b.zero_point),
        ratio(a.scale * b.scale / c.scale),
        c_zero(static_cast<float>(c.zero_point)) {}
  float operator()(int32_t a, int32_t b) const {
    return static_cast<float>((a - a_zero) * (b - b_zero)) * ratio + c_zero;
  }
};

template <typename Function>
Status EvalQLinear(KernelContext& context) {
  RETURN_IF_ERROR(RequireInputs(context, {kB, kBScale, kCScale}));
  const Tensor &a = context.in(kA), &b = context.in(kB);
  if (a.dtype() != b.dtype()) return DataError("codes of {} and {}", NameOf(a.dtype()), NameOf(b.dtype()));
  ASSIGN_OR_RETURN(const CodeScale a_scale, ReadCodeScale(context.in(kAScale), context.input(kAZero), a.dtype()));
  ASSIGN_OR_RETURN(const CodeScale b_scale, ReadCodeScale(context.in(kBScale), context.input(kBZero), a.dtype()));
  ASSIGN_OR_RETURN(const CodeScale c_scale, ReadCodeScale(context.in(kCScale), context.input(kCZero), a.dtype()));
  const Function f(a_scale, b_scale, c_scale);
  return WithType<uint8_t, int8_t>(a.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    return BroadcastBinary<T, T, T>(context, a, b, [&f](T x, T y) { return RoundToCode<T>(f(x, y)); });
  });
}

// The dims that two shapes broadcast to, where they are known; an unknown dim beside 1 or another unknown one stays so.
void InferBinary(InferContext& context) {
  if (context.inputs.size() <= kB || context.outputs.empty()) return;
  const auto &a = context.inputs[kA].shape, &b = context.inputs[kB].shape;
  context.outputs[0].dtype = context.inputs[kA].dtype;
  if (!a || !b) return;
  const auto decides = [](const Dim& dim) { return dim.known() && dim.value != 1; };
  const auto yields = [](const Dim& dim) { return dim.known() && dim.value == 1; };
  Shape out(std::max(a->size(), b->size()));
  for (size_t back = 1; back <= out.size(); ++back) {
    const Dim one = {1, ""};
    const Dim &x = back <= a->size() ? (*a)[a->size() - back] : one,
              &y = back <= b->size() ? (*b)[b->size() - back] : one;
    Dim& dim = out[out.size() - back];
    if (decides(x) || yields(y)) {
      dim = x;
    } else if (decides(y) || yields(x)) {
      dim = y;
    }
  }
  context.outputs[0].shape = std::move(out);
}

SchemaRow Schema(std::string doc) {
  return {.doc = std::move(doc),
          .inputs = {{"A", "T"},
                     {"A_scale", "tensor(float)"},
                     {"A_zero_point", "T", true},
                     {"B", "T"},
                     {"B_scale", "tensor(float)"},
                     {"B_zero_point", "T", true},
                     {"C_scale", "tensor(float)"},
                     {"C_zero_point", "T", true}},
          .outputs = {{"C", "T"}},
          .types = {{"T", {"tensor(uint8)", "tensor(int8)"}}},
          .infer = InferBinary};
}

}  // namespace

const OpDef& QLinearAddOp() {
  static const SchemaRow schema = Schema("Sum of quantized tensors, quantized");
  static const OpDef def = QLinear("QLinearAdd", 2, EvalQLinear<Sum>, schema, "Sum of quantized tensors");
  return def;
}

const OpDef& QLinearMulOp() {
  static const SchemaRow schema = Schema("Product of quantized tensors, element by element, quantized");
  static const OpDef def = QLinear("QLinearMul", 2, EvalQLinear<Product>, schema, "Product of quantized tensors");
  return def;
}

}  // namespace quant
