// Nodes that give back one of their inputs unchanged, whatever it holds: what eliminate-no-ops looks for.
#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace quant {

struct NoOp {
  std::string_view op_type;  // of the default domain
  // The input that is proven to equal output 0 in type, shape and elements; kNoValue: none is. No attribute of the node
  // is a function's.
  ValueId (*returned)(const PassContext& context, const Node& node);
};

// Cast, Reshape, Transpose, Slice, Pad, Concat, Resize and other operators that move elements.
std::span<const NoOp> MoverNoOps();
// Windows of one element, and reductions over axes of length 1.
std::span<const NoOp> WindowNoOps();
// Add of zeros, Mul by ones, Max of one input, Relu of what is never negative, and the like.
std::span<const NoOp> ArithmeticNoOps();

}  // namespace quant
