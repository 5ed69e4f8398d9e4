// Conv, ConvTranspose, Gemm and MatMul with a constant weight, seen as one operator.
//
//   y[o] = sum over i and taps of w[o, i, tap] * x[i] + b[o]      i, o: channels of x and y, at each position
#pragma once

#include <functional>
#include <numeric>
#include <optional>

#include "passes/pass.h"

namespace quant {

struct LinearOp {
  enum class Kind { kConv, kConvTranspose, kGemm, kMatMul };
  Kind kind = Kind::kConv;
  NodeId id = kNoNode;
  ValueId x = kNoValue, weight = kNoValue;
  ValueId bias = kNoValue;  // may be left out, and need not be constant
  int64_t inputs = 0, outputs = 0, groups = 1;
  // The weight is [outputs, inputs / groups, taps...]; else [inputs, outputs / groups, taps...].
  bool output_major = true;
  std::optional<int64_t> rank;  // of x and y, which is the same
  int64_t axis_from_end = 0;    // of the channels in x and y; 0: the last one
  bool transposed_x = false;    // Gemm's transA: the channels of x are its rows
};

// What `id` is, from opset 7 on; nullopt, with a Miss where it nearly is one. Floating-point types only.
std::optional<LinearOp> LinearAt(const PassContext& context, NodeId id);
// The one that makes `value`, and nobody else reads it.
std::optional<LinearOp> LinearMaking(const PassContext& context, ValueId value);

// A constant float32 row: one number for each of the channels, along its last axis.
bool IsRow(const Graph& graph, ValueId value, int64_t channels);

// A Conv or ConvTranspose that adds no border to x.
bool HasNoPads(const Node& conv);

// Calls f(begin, end, o, i) for the elements of a weight of these dims that take input channel i to output channel o.
template <typename F>
void ForEachChannelPair(const LinearOp& op, const Dims& dims, F&& f) {
  const int64_t rows = dims[0], columns = dims[1];
  const int64_t taps = std::accumulate(dims.begin() + 2, dims.end(), int64_t{1}, std::multiplies<>());
  for (int64_t a = 0; a < rows; ++a) {
    const int64_t base = a / (rows / op.groups) * columns;
    for (int64_t b = 0; b < columns; ++b) {
      const int64_t o = op.output_major ? a : base + b, i = op.output_major ? base + b : a;
      const int64_t begin = (a * columns + b) * taps;
      f(begin, begin + taps, static_cast<size_t>(o), static_cast<size_t>(i));
    }
  }
}

}  // namespace quant
