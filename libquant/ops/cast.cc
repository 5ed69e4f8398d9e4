// Cast: from any number type or bool to another. Integers wrap, floats towards zero when they become integers.
#include <cmath>
#include <limits>

#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

// Out-of-range floats give the nearest integer there is and NaN gives 0: C++ leaves both undefined.
template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<typename Wide<From>::type>(value) != 0;
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    const auto wide = static_cast<double>(value);
    if (wide != wide) return 0;
    // 2^63 and 2^64 are exact in double; the type's own largest number may not be.
    if (wide >= std::ldexp(1.0, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
    if (wide < static_cast<double>(std::numeric_limits<To>::lowest())) return std::numeric_limits<To>::lowest();
    return static_cast<To>(wide);
  } else if constexpr (std::is_same_v<From, bool>) {
    return static_cast<To>(value ? 1.0f : 0.0f);
  } else if constexpr (std::is_same_v<To, float16> || std::is_same_v<To, bfloat16>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename F>
Status WithNumberOrBool(DType dtype, F&& f) {
  return dtype == DType::kBool ? f(bool{}) : WithNumber(dtype, std::forward<F>(f));
}

Status CastTo(KernelContext& context, DType dtype) {
  const Tensor& x = context.in(0);
  if (x.dtype() == dtype) {
    context.Set(0, x);
    return OkStatus();
  }
  return WithNumberOrBool(x.dtype(), [&](auto from) -> Status {
    return WithNumberOrBool(dtype, [&](auto to) -> Status {
      using From = decltype(from);
      using To = decltype(to);
      ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, x.dims()));
      const From* in = x.data<From>().data();
      To* result = out->template mutable_data<To>().data();
      for (int64_t i = 0; i < x.size(); ++i) result[i] = Convert<To>(in[i]);
      return OkStatus();
    });
  });
}

Status EvalCast(KernelContext& context) {
  return CastTo(context, DTypeFromNumber(static_cast<int32_t>(context.attributes().Int("to", 0))));
}

Status EvalCastLike(KernelContext& context) { return CastTo(context, context.in(1).dtype()); }

}  // namespace

const OpDef& CastOp() {
  static const OpDef def = {.name = "Cast",
                            .since = {6, 9, 13, 19, 21, 23, 24, 25},
                            .eval = EvalCast,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "The elements in another type"};
  return def;
}
const OpDef& CastLikeOp() {
  static const OpDef def = {.name = "CastLike",
                            .since = {15, 19, 21, 23, 24, 25},
                            .min_inputs = 2,
                            .eval = EvalCastLike,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "The elements in another tensor's type"};
  return def;
}

}  // namespace quant
