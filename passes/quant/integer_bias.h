// Biases as int32 codes at the product of the scales, zero point 0:
//
//   Conv(x, w, b)   =>   Conv(x, w, DequantizeLinear(round_half_even(b / (s_x * s_w)), s_x * s_w))
//
// by output channel where the weight's scales are. Where a code would not fit into int32 (a channel of tiny weights
// with an ordinary bias), the weight's scale is widened until it does: what that loses of the weights is less than one
// of 2^31 steps of the bias.
#pragma once

#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "passes/quant/activation_scales.h"
#include "passes/quant/integer_plan.h"

namespace quant {

// For the plan's weighted nodes, whose weights are dequantized codes by now. Notes say where a weight's scale was
// widened, and where a bias stays float because it has not one number for each channel.
Status QuantizeBiases(Graph& graph, const IntegerPlan& plan, const ActivationScales& scales,
                      std::vector<IntegerNote>& notes);

}  // namespace quant
