// Where channels of a value can be made smaller or larger while the float model's answers stay: what makes the value
// takes up the division, what reads it the multiplication.
//
//   LayerNormalization, Conv, ... -> Relu, MaxPool, ... -> x -> Conv, MatMul     =>    x[c] / f[c]
//   scale / f, bias / f, weight's outputs / f                  weight's inputs * f
//
// Between quantizers it does change the answers: a value has one scale for all of its channels, so that a channel much
// larger than the others costs these their precision, and so has a row of weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"
#include "passes/fusion/linear_op.h"

namespace quant {

// A constant that a factor of each channel goes into.
struct ChannelPart {
  ValueId constant = kNoValue;
  // The linear operator whose weight it is, along its output or input channels; null: one number for each channel.
  std::optional<LinearOp> op;
  bool outputs = false;
};

struct BalanceSite {
  ValueId value = kNoValue;  // float32; read by linear operators of constant weights alone
  int64_t channels = 0;
  int64_t axis_from_end = 0;         // of the channels; 0: the last one
  std::vector<ChannelPart> made_by;  // divided
  std::vector<ChannelPart> read_by;  // multiplied
  bool linear_maker = false;         // the first of made_by is the weight of a linear operator
};

// All of them in the main graph, in graph order. Constants that others read too are none of theirs, so a site's parts
// can change in place.
std::vector<BalanceSite> FindBalanceSites(const Model& model);

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
