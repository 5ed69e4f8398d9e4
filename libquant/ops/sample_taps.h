// Reading a tensor between its elements: along an axis a few taps, elements with weights; over several axes, products
// of taps. An element outside the tensor is no tap: it counts as zero.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace quant {

// The taps of one axis: at most four, as cubic interpolation has.
template <typename T>
struct Taps {
  int count = 0;
  std::array<int64_t, 4> at;
  std::array<T, 4> weight;

  void Add(int64_t index, T w) {
    at[static_cast<size_t>(count)] = index;
    weight[static_cast<size_t>(count)] = w;
    ++count;
  }
};

// The two neighbours of position x that lie in [0, dim). Any x may come: none for NaN.
template <typename T>
Taps<T> LinearTaps(T x, int64_t dim) {
  Taps<T> taps;
  if (!(x > -1 && x < static_cast<T>(dim))) return taps;
  const T floor = std::floor(x);
  const auto first = static_cast<int64_t>(floor);
  if (first >= 0) taps.Add(first, 1 - (x - floor));
  if (first + 1 < dim) taps.Add(first + 1, x - floor);
  return taps;
}

// Taps of three axes multiplied out, as offsets into a dense plane.
template <typename T>
struct PlaneTaps {
  int count = 0;
  std::array<int64_t, 64> offset;
  std::array<T, 64> weight;

  PlaneTaps(const std::array<Taps<T>, 3>& axes, const std::array<int64_t, 3>& dims) {
    for (size_t d = 0; d < static_cast<size_t>(axes[0].count); ++d) {
      for (size_t h = 0; h < static_cast<size_t>(axes[1].count); ++h) {
        const int64_t row = (axes[0].at[d] * dims[1] + axes[1].at[h]) * dims[2];
        const T factor = axes[0].weight[d] * axes[1].weight[h];
        for (size_t w = 0; w < static_cast<size_t>(axes[2].count); ++w, ++count) {
          offset[static_cast<size_t>(count)] = row + axes[2].at[w];
          weight[static_cast<size_t>(count)] = factor * axes[2].weight[w];
        }
      }
    }
  }
};

}  // namespace quant
