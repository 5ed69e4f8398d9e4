// Functions of runs of numbers, a vector at a time through Eigen: the same bytes whatever a run's address and length.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unsupported/Eigen/SpecialFunctions>

namespace quant {

template <typename T>
using PacketOf = typename Eigen::internal::packet_traits<T>::type;

// out[i] = f(in[i]) for an f of packets. May work in place.
template <typename T, typename F>
void MapPackets(const T* in, int64_t count, T* out, const F& f) {
  namespace internal = Eigen::internal;
  constexpr int64_t kSize = internal::packet_traits<T>::size;
  int64_t i = 0;
  for (; i + kSize <= count; i += kSize) {
    internal::pstoreu(out + i, f(internal::ploadu<PacketOf<T>>(in + i)));
  }
  if (i == count) return;
  T rest[static_cast<size_t>(kSize)] = {};
  std::copy(in + i, in + count, rest);
  internal::pstoreu(rest, f(internal::ploadu<PacketOf<T>>(rest)));
  std::copy(rest, rest + (count - i), out + i);
}

inline void TanhRow(const float* in, int64_t count, float* out) {
  MapPackets(in, count, out, [](const PacketOf<float>& x) { return Eigen::internal::ptanh(x); });
}
inline void TanhRow(const double* in, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = std::tanh(in[i]);
}

inline void ErfRow(const float* in, int64_t count, float* out) {
  MapPackets(in, count, out, [](const PacketOf<float>& x) { return Eigen::internal::perf(x); });
}
inline void ErfRow(const double* in, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = std::erf(in[i]);
}

// out[i] = f(in[i]) for an f that needs a run's arguments after it has written results, as f(in, count, out), in place
// or not.
template <typename T, typename F>
void MapBlocks(const T* in, int64_t count, T* out, const F& f) {
  constexpr int64_t kBlock = 256;
  T block[static_cast<size_t>(kBlock)];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t n = std::min(kBlock, count - i);
    std::copy_n(in + i, n, block);
    f(block, n, out + i);
  }
}

}  // namespace quant
