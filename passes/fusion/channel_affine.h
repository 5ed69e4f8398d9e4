// A scale and a shift of each channel, as a BatchNormalization or a constant operand makes them.
#pragma once

#include <optional>
#include <vector>

#include "passes/fusion/linear_op.h"

namespace quant {

// z[c] = y[c] * factor[c] + shift[c] for each channel.
struct ChannelAffine {
  std::vector<double> factor, shift;
  ValueId shift_value = kNoValue;  // the constant that the shift comes from

  bool Scales() const;
  bool Shifts() const;
};

// Where the channels of a value lie.
struct ChannelAxis {
  int64_t channels = 0;
  int64_t from_end = 0;         // 0: the last axis
  std::optional<int64_t> rank;  // of the value
  bool extent_known = true;     // its dimension there is known to be `channels`
};
// In op's result.
ChannelAxis AxisAfter(const LinearOp& op);
// In `x`, from which one elementwise node makes op's input.
ChannelAxis AxisBefore(const Graph& graph, const LinearOp& op, ValueId x);

// A Mul, Div, Add or Sub of `x` and a constant with one value, or one a channel, that leaves x's shape as it is.
// nullopt when it is another node; with a Miss when the constant does not fit.
std::optional<ChannelAffine> AffineOf(const PassContext& context, NodeId id, ValueId x, const ChannelAxis& axis);

// What a BatchNormalization at inference does to this many channels; nullopt, with a Miss where it can't be told.
std::optional<ChannelAffine> BatchNormAffine(const PassContext& context, NodeId id, int64_t channels);

// The elements of a tensor, or of a constant, of floating-point numbers.
std::optional<std::vector<double>> DoublesOf(const Tensor& tensor);
std::optional<std::vector<double>> DoublesOf(const Graph& graph, ValueId value);

// The operand of a node of two that is not constant; kNoValue when both are or neither is.
ValueId VariableOperand(const Graph& graph, const Node& node);

}  // namespace quant
