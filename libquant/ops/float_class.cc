// IsNaN and IsInf, of floating-point types down to float8.
#include <cmath>

#include "libquant/numerics/small_float.h"
#include "libquant/ops/map_elements.h"

namespace quant {
namespace {

// y[i] = f(x[i]), x as float32 or float64.
template <typename F>
Status TestFloats(KernelContext& context, F f) {
  const Tensor& x = context.in(0);
  const DTypeInfo& info = InfoOf(x.dtype());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DType::kBool, x.dims()));
  bool* to = out->mutable_data<bool>().data();
  if (info.is_float && info.bits == 8) {
    const auto& values = SmallFloatValues(x.dtype());
    std::transform(x.data<uint8_t>().begin(), x.data<uint8_t>().end(), to,
                   [&](uint8_t code) { return f(values[code]); });
    return OkStatus();
  }
  return WithFloat(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    std::transform(x.data<T>().begin(), x.data<T>().end(), to,
                   [&](T v) { return f(static_cast<typename Wide<T>::type>(v)); });
    return OkStatus();
  });
}

Status EvalIsNaN(KernelContext& context) {
  return TestFloats(context, [](auto v) { return std::isnan(v); });
}

Status EvalIsInf(KernelContext& context) {
  const bool negative = context.attributes().Int("detect_negative", 1) != 0;
  const bool positive = context.attributes().Int("detect_positive", 1) != 0;
  return TestFloats(context, [=](auto v) { return std::isinf(v) && (v < 0 ? negative : positive); });
}

}  // namespace

const OpDef& IsNaNOp() {
  static const OpDef def =
      Unary("IsNaN", {9, 13, 20}, EvalIsNaN, Control{}, Exactness::kExact, "Whether an element is NaN");
  return def;
}
const OpDef& IsInfOp() {
  static const OpDef def =
      Unary("IsInf", {10, 20}, EvalIsInf, Control{}, Exactness::kExact, "Whether an element is infinite");
  return def;
}

}  // namespace quant
