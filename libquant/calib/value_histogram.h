// What calibration keeps of one value: exact extremes and counts in bins, of bounded size however many elements it saw.
//
// Bins are of width 2^exponent, aligned to zero: bin b, from -kSide to kSide - 1, holds b * width <= x < (b + 1) *
// width. The exponent is the least at which the largest magnitude fits; when it grows, neighbouring bins are merged. So
// the counts depend on the elements alone: not on their order, nor on how they were divided among several histograms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

class ValueHistogram {
 public:
  static constexpr int64_t kSide = 2048;
  // The exponent at which an empty histogram, or one of zeros, starts: the least of float32's.
  static constexpr int kLeastExponent = -149;

  // NaN and infinities are counted apart. Large spans are split over threads.
  void Add(std::span<const float> values);
  void Merge(const ValueHistogram& other);

  int64_t count() const { return count_; }  // finite elements
  int64_t zeros() const { return zeros_; }  // of these
  int64_t nans() const { return nans_; }
  int64_t infinities() const { return infinities_; }
  // Of the finite elements; 0 when there are none.
  float min() const { return count_ == 0 ? 0 : min_; }
  float max() const { return count_ == 0 ? 0 : max_; }
  int exponent() const { return exponent_; }
  double width() const;
  // Counts of bins -kSide to kSide - 1; empty while nothing was counted.
  const std::vector<int64_t>& bins() const { return bins_; }

  // The histogram with these contents. DataError when they contradict each other.
  struct Parts {
    int64_t zeros = 0, nans = 0, infinities = 0;
    float min = 0, max = 0;
    int exponent = kLeastExponent;
    std::vector<int64_t> bins;
  };
  static StatusOr<ValueHistogram> Of(Parts parts);

 private:
  void WidenTo(int exponent);

  int64_t count_ = 0, zeros_ = 0, nans_ = 0, infinities_ = 0;
  float min_ = 0, max_ = 0;
  int exponent_ = kLeastExponent;
  std::vector<int64_t> bins_;
};

}  // namespace quant
