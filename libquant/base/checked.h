// Arithmetic on sizes that come from files: every overflow is a failure, never a wrap-around.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quant {

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}
// Product of dims (1 for a scalar); nullopt when a dim is negative or the product overflows.
inline std::optional<int64_t> CheckedProduct(std::span<const int64_t> dims) {
  int64_t out = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(out, d, &out)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : out;
}
// ceil(a / b) for a >= 0, b > 0, without overflow.
inline int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace quant
