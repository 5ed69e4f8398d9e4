// Means of a model's values by channel, over all positions and samples.
#pragma once

#include <functional>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"

namespace quant {

// Runs the model, whose operators must all have a kernel, on all samples. `wanted` names float32 values with the axis
// of their channels; those that no sample made, or that differ in their number of channels, are left out. NaN and
// infinities are passed over.
StatusOr<ChannelMeans> MeasureChannelMeans(const Model& model, const std::vector<RangeWanted>& wanted,
                                           SampleSource& samples,
                                           const std::function<void(int64_t done, int64_t all)>& progress = nullptr);

}  // namespace quant
