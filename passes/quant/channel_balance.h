// Accuracy helpers that move factors of channels from a value into the weights that read it (balance_sites.h), so that
// the float model answers as before. Between quantizers it does change the answers: a value has one scale for all of
// its channels, so that a channel much larger than the others costs these their precision, and so has a row of weights.
#pragma once

#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"

namespace quant {

// Cross-layer equalization (Nagel et al., 2019, "Data-Free Quantization Through Weight Equalization and Bias
// Correction", eq. 11), for sites between two linear operators:
//
//   f[c] = sqrt(max |W1[c, :]| / max |W2[:, c]|)
//
// so that both reach equally far for each channel; over and over until nothing moves, as sites share operators. Returns
// how many sites changed.
StatusOr<int> EqualizeWeights(Model& model);

// Moves what activations vary between channels into weights (Xiao et al., 2023, "SmoothQuant", eq. 4):
//
//   f[c] = max |x[c]|^alpha / max |W[:, c]|^(1 - alpha)
//
// `ranges` gives ValueRange::channel_absmax of the sites' values; those without one stay. alpha from 0 to 1. Returns
// how many sites changed.
StatusOr<int> BalanceActivations(Model& model, const ValueRanges& ranges, double alpha);

// The ranges that BalanceActivations asks for.
std::vector<RangeWanted> ChannelsWanted(const Model& model);

}  // namespace quant
