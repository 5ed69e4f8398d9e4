// From a DType to a C++ type: f(T{}) for the types a kernel takes.
#pragma once

#include <utility>

#include "libquant/ops/op_def.h"

namespace quant {

// Calls f(T{}) for the T of Ts whose DType this is; Unsupported when there is none.
template <typename... Ts, typename F>
Status WithType(DType dtype, F&& f) {
  Status status;
  const bool found = ((dtype == DTypeOf<Ts>() ? (status = f(Ts{}), true) : false) || ...);
  return found ? status : Unsupported("elements of type {} are not supported here", NameOf(dtype));
}

template <typename F>
Status WithNumber(DType dtype, F&& f) {
  return WithType<float, int64_t, int32_t, double, float16, bfloat16, uint8_t, int8_t, uint16_t, int16_t, uint32_t,
                  uint64_t>(dtype, std::forward<F>(f));
}

template <typename F>
Status WithFloat(DType dtype, F&& f) {
  return WithType<float, double, float16, bfloat16>(dtype, std::forward<F>(f));
}

// An unsigned type of the element's width, for kernels that only move elements.
template <typename F>
Status WithElementBits(DType dtype, F&& f) {
  switch (InfoOf(dtype).bits) {
    case 8:
      return f(uint8_t{});
    case 16:
      return f(uint16_t{});
    case 32:
      return f(uint32_t{});
    case 64:
      return f(uint64_t{});
    default:
      return Unsupported("elements of type {} are not supported here", NameOf(dtype));
  }
}

// The type arithmetic on T is done in: float for the 16-bit floats, T for all else.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<float16> {
  using type = float;
};
template <>
struct Wide<bfloat16> {
  using type = float;
};

}  // namespace quant
