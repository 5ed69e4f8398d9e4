// Shrink: y = x + bias below -lambd, x - bias above lambd, else 0.
#include "libquant/ops/convert_number.h"
#include "libquant/ops/map_elements.h"

namespace quant {
namespace {

Status EvalShrink(KernelContext& context) {
  const float lambd = context.attributes().Float("lambd", 0.5F), bias = context.attributes().Float("bias", 0.0F);
  const auto shrink = [=](auto v) {
    using T = decltype(v);
    const auto limit = static_cast<T>(lambd), shift = static_cast<T>(bias);
    return v < -limit ? v + shift : v > limit ? v - shift : T{0};
  };
  const DType dtype = context.in(0).dtype();
  if (InfoOf(dtype).is_float) return MapFloats(context, shrink);
  // Integers are compared and shifted as float64, then cut off.
  return MapNumbers(context, [&](auto v) { return ConvertNumber<decltype(v)>(shrink(static_cast<double>(v))); });
}

}  // namespace

const OpDef& ShrinkOp() {
  static const OpDef def =
      Unary("Shrink", {9}, EvalShrink, FloatOnly{}, Exactness::kExact, "Elements moved towards 0, small ones to 0");
  return def;
}

}  // namespace quant
