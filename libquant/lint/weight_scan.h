// What the numbers of constants are like, found in one reading: pieces of at most 2 MiB, on all threads, so that memory
// stays small whatever the model's size. Results don't depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

struct ScanRequest {
  const Tensor* tensor = nullptr;  // owned, or a range of a file; no strings
  bool median = false;
};

struct WeightStats {
  // Of float32, float64, float16 and bfloat16; all 0 for other types.
  int64_t nans = 0;
  int64_t infinities = 0;
  int64_t zeros = 0;
  int64_t denormals = 0;        // of float32 and bfloat16
  int64_t half_overflows = 0;   // finite, infinite as float16
  int64_t half_underflows = 0;  // not 0, but 0 as float16
  double largest = 0;           // magnitude, of the finite ones
  // Median magnitude of those that are neither 0 nor infinite nor NaN, to within 1/128 of itself; where asked for.
  std::optional<double> median;
  bool uniform = true;  // all elements have the same bits
  // Of int64 and int8.
  int64_t least = 0;
  int64_t most = 0;
  // Of the bytes: equal for equal bytes, and hardly for others.
  uint64_t hash = 0;
};

// In the order of the requests. `progress` gets bytes, from any thread.
StatusOr<std::vector<WeightStats>> ScanWeights(std::span<const ScanRequest> requests,
                                               const std::function<void(int64_t done, int64_t total)>& progress = {});

// Whether two constants of equal byte size hold the same bytes.
StatusOr<bool> SameBytes(const Tensor& a, const Tensor& b);

}  // namespace quant
