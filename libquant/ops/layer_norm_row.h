// One row of a layer normalization, as the fused operators have it:
//   y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, or without mean: x / sqrt(mean of x * x + epsilon) * gamma
#pragma once

#include <cmath>

#include "libquant/ops/reduce_rows.h"

namespace quant {

template <typename T>
struct LayerNormRow {
  const T* gamma = nullptr;
  const T* beta = nullptr;  // or null
  double epsilon = 0;
  bool centred = true;

  struct Statistics {
    float mean, inverse;
  };

  Statistics operator()(const T* x, int64_t length, T* y) const {
    Moments moments = {};
    if (centred) {
      moments = MomentsOf(x, length);
    } else {
      const double square = SumOf(x, length, [](double v) { return v * v; });
      moments.variance = square / static_cast<double>(std::max<int64_t>(length, 1));
    }
    const double inverse = 1 / std::sqrt(moments.variance + epsilon);
    const T shift = static_cast<T>(moments.mean), factor = static_cast<T>(inverse);
    for (int64_t i = 0; i < length; ++i) y[i] = (x[i] - shift) * factor * gamma[i];
    for (int64_t i = 0; beta != nullptr && i < length; ++i) y[i] += beta[i];
    return {static_cast<float>(moments.mean), static_cast<float>(inverse)};
  }
};

}  // namespace quant
