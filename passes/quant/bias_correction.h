// Bias correction (Nagel et al., 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction",
// section 4.2): what rounding the weights shifts the mean of each output channel by goes out of the bias.
//
//   b'[o] = b[o] - sum over i and taps of (Wq[o, i, tap] - W[o, i, tap]) * mean(x[i])
//
// Right for products; at the border of a padded Conv, which sees fewer taps, it is the middle's correction.
#pragma once

#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"
#include "passes/quant/integer_plan.h"

namespace quant {

// The means that it asks for: of what the plan's products read.
std::vector<RangeWanted> MeansWanted(const Model& model, const IntegerPlan& plan);

// Corrects the float model's biases by what became of the weights in `quantized`, which was made of it and of the plan:
// its nodes have the same ids. A Conv or Gemm without a bias gets one; a MatMul whose product goes into no Add of a
// constant row stays. Returns how many nodes' biases changed.
StatusOr<int> CorrectBiases(Model& model, const Model& quantized, const IntegerPlan& plan, const ChannelMeans& means);

}  // namespace quant
