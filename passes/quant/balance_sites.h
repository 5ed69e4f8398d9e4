// Where channels of a value can be made smaller or larger while the float model's answers stay: what makes the value
// takes up the division, what reads it the multiplication.
//
//   LayerNormalization, Conv, ... -> Relu, MaxPool, ... -> x -> Conv, MatMul     =>    x[c] / f[c]
//   scale / f, bias / f, weight's outputs / f                  weight's inputs * f
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libquant/ir/graph.h"
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

}  // namespace quant
