// Exponentials of runs of numbers, the same bytes whatever a run's address and length; below the smallest normal
// number the result is 0.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace quant {

namespace exp_rows_internal {

template <typename T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <typename T>
constexpr int64_t kSize = Eigen::internal::packet_traits<T>::size;

// Eigen's own result for what would underflow is a small number instead of 0.
template <typename T>
Packet<T> Exp(const Packet<T>& x) {
  namespace in = Eigen::internal;
  const Packet<T> lowest = in::pset1<Packet<T>>(std::is_same_v<T, float> ? T(-87.33654) : T(-708.396418532264));
  return in::pandnot(in::pexp(x), in::pcmp_lt(x, lowest));
}

}  // namespace exp_rows_internal

// out[i] = exp(in[i] - shift). May work in place.
template <typename T>
void ExpRow(const T* in, T shift, int64_t count, T* out) {
  using namespace exp_rows_internal;
  namespace internal = Eigen::internal;
  const Packet<T> shifts = internal::pset1<Packet<T>>(shift);
  int64_t i = 0;
  for (; i + kSize<T> <= count; i += kSize<T>) {
    internal::pstoreu(out + i, Exp<T>(internal::psub(internal::ploadu<Packet<T>>(in + i), shifts)));
  }
  if (i == count) return;
  T tail[static_cast<size_t>(kSize<T>)] = {};
  std::copy(in + i, in + count, tail);
  internal::pstoreu(tail, Exp<T>(internal::psub(internal::ploadu<Packet<T>>(tail), shifts)));
  std::copy(tail, tail + (count - i), out + i);
}

}  // namespace quant
