// Softmax of one row, shifted by its largest element:
//   softmax(x) = exp(x - max) / sum of exp(x - max)        logsoftmax(x) = x - max - log(sum of exp(x - max))
#pragma once

#include <cmath>
#include <cstdint>

#include "libquant/ops/exp_rows.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {

template <typename T>
T LargestOf(const T* x, int64_t count) {
  T best = x[0];
  for (int64_t i = 1; i < count; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// count > 0; unless kLog, may work in place.
template <typename T, bool kLog>
void SoftmaxRow(const T* x, int64_t count, T* y) {
  const T largest = LargestOf(x, count);
  ExpRow(x, largest, count, y);
  const double sum = Sum(y, count);
  if (kLog) {
    const T log_sum = static_cast<T>(std::log(sum));
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest - log_sum;
  } else {
    const T factor = static_cast<T>(1 / sum);
    for (int64_t i = 0; i < count; ++i) y[i] *= factor;
  }
}

}  // namespace quant
