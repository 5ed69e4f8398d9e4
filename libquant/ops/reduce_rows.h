// Sums of long runs: in double, over a fixed set of lanes, so that they are exact enough for any length and the same
// everywhere.
#pragma once

#include <array>
#include <cstdint>

namespace quant {

// Sum of f(values[i]) for i in [0, count).
template <typename T, typename F>
double SumOf(const T* values, int64_t count, F&& f) {
  constexpr int64_t kLanes = 16;
  std::array<double, kLanes> sums = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) sums[static_cast<size_t>(j)] += f(static_cast<double>(values[i + j]));
  }
  for (int64_t j = 0; i < count; ++i, ++j) sums[static_cast<size_t>(j)] += f(static_cast<double>(values[i]));
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

template <typename T>
double Sum(const T* values, int64_t count) {
  return SumOf(values, count, [](double v) { return v; });
}

struct Moments {
  double mean = 0;
  double variance = 0;  // of the population
};

template <typename T>
Moments MomentsOf(const T* values, int64_t count) {
  if (count == 0) return {};
  Moments m;
  m.mean = Sum(values, count) / static_cast<double>(count);
  m.variance = SumOf(values, count, [&](double v) { return (v - m.mean) * (v - m.mean); }) / static_cast<double>(count);
  return m;
}

}  // namespace quant
