// What Softmax, LogSoftmax and Hardmax have in common: before opset 13 the input is taken as a matrix, split at `axis`
// (default 1), and they work on its rows; from 13 on they work along one axis (default -1).
#pragma once

#include "libquant/ops/axes.h"

namespace quant {

// DataError when the axis is outside the input's rank.
StatusOr<AxisSplit> SoftmaxAxes(const KernelContext& context);

}  // namespace quant
