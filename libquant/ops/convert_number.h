// From a number of one type to another, as Cast means it.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "libquant/ops/dispatch.h"

namespace quant {

// Out-of-range floats give the nearest integer there is and NaN gives 0: C++ leaves both undefined.
template <typename To, typename From>
To ConvertNumber(From value) {
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

}  // namespace quant
