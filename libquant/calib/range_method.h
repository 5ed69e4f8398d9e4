// How the range of a value is chosen from what calibration counted.
//
//   minmax          the extremes
//   moving-average  extremes of each sample, averaged: a' = momentum * a + (1 - momentum) * x; depends on the samples'
//   order percentile      the narrowest range that leaves (100 - percentile) / 2 per cent out on each side, to a bin's
//   edge entropy         the clipping threshold with the least Kullback-Leibler divergence between the counts and those
//   that the
//                   codes can tell apart
//   mse             the range with the least expected squared error: rounding, width^2 / 12 of a code's step within,
//   and
//                   the distance to the limit outside
//
// A range is never wider than the extremes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/calib/value_histogram.h"
#include "libquant/numerics/value_ranges.h"

namespace quant {

enum class RangeMethod { kMinMax, kMovingAverage, kPercentile, kEntropy, kMse };

std::vector<std::string> RangeMethodNames();
StatusOr<RangeMethod> RangeMethodOf(std::string_view name);
std::string_view NameOf(RangeMethod method);

struct RangeOptions {
  RangeMethod method = RangeMethod::kMinMax;
  double percentile = 99.99;  // of the elements that lie within; kPercentile
  double momentum = 0.99;     // kMovingAverage
  int bits = 8;               // of the codes; kEntropy, kMse
};

// By any method but kMovingAverage. The histogram is not empty.
ValueRange RangeOf(const ValueHistogram& histogram, const RangeOptions& options);

// The part of the elements that lie outside, to a bin's width.
double ClippedPart(const ValueHistogram& histogram, const ValueRange& range);

}  // namespace quant
