// Calibration: the ranges that a model's values take over samples, in one pass that keeps a histogram of bounded size
// for each value and none of its tensors. Shapes may differ from sample to sample.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/calib/range_method.h"
#include "libquant/calib/value_histogram.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/quantize.h"
#include "libquant/numerics/value_ranges.h"

namespace quant {

// What is known of one value.
struct CalibratedValue {
  ValueHistogram histogram;
  // Averages over samples; RangeMethod::kMovingAverage only.
  double average_min = 0, average_max = 0;
  int64_t samples = 0;  // in which it was made, with at least one finite element
  // By channel of the axis that was asked for; empty when none was, or when samples differ in their number.
  std::vector<float> channel_absmax;
};

struct Calibration {
  RangeOptions options;
  int64_t samples = 0;
  std::map<std::string, CalibratedValue, std::less<>> values;  // all that were wanted

  // The same from both sets of samples, exactly and in any order. UsageError when the values or methods differ, or for
  // moving averages, which depend on the order.
  Status Merge(const Calibration& other);
  ValueRange RangeOfValue(const CalibratedValue& value) const;
  // Those of values that were made; one without an element has none. DataError naming values with NaN or infinities,
  // unless they are to be passed over.
  StatusOr<ValueRanges> Ranges(NonFinite non_finite) const;
};

// Runs the model, whose operators must all have a kernel, on all samples. DataError when there are none.
StatusOr<Calibration> Calibrate(const Model& model, const std::vector<RangeWanted>& wanted, SampleSource& samples,
                                const RangeOptions& options,
                                const std::function<void(int64_t done, int64_t all)>& progress = nullptr);

// Every float value of the main graph that is no constant: inputs and what nodes make. Channels lie along the last axis
// for the data of MatMul and Gemm, the second for a Conv's, as far as ranks are known.
std::vector<RangeWanted> AllFloatValues(const Model& model);

}  // namespace quant
