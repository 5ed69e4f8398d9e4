// Folds a scale and a shift of channels into the linear operator before or after them.
//
//   after:   w' = w * factor[o]    b' = b * factor[o] + shift[o]
//   before:  w' = w * factor[i]    b' = b + sum over i and taps of w * shift[i]
//
// In double, rounded once into the weight's type. A weight that others read stays as it is, and nothing is folded; a
// bias may be copied.
#pragma once

#include "passes/fusion/channel_affine.h"

namespace quant {

// `op` with `follower`, the only reader of its result, folded in: it keeps op's name and gives follower's output.
// nullopt with a Miss.
std::optional<GraphEdit> FoldAfter(const PassContext& context, const LinearOp& op, NodeId follower,
                                   const ChannelAffine& affine);
// `op` with `before`, which makes op's x, folded in; op reads `x` instead, which `edit`, anchored at op, may make.
// nullopt with a Miss.
std::optional<GraphEdit> FoldBefore(const PassContext& context, const LinearOp& op, NodeId before, ValueRef x,
                                    const ChannelAffine& affine, GraphEdit edit);

// The rule of a pass that folds elementwise nodes of these operators with a constant operand: `root` is one of them, or
// the linear operator that one of them feeds.
std::optional<GraphEdit> FoldElementwise(const PassContext& context, NodeId root,
                                         std::initializer_list<std::string_view> op_types);

// values, each rounded once, as a tensor of a floating-point type; nullopt when one is not finite in it.
std::optional<Tensor> RoundedTensor(DType dtype, Dims dims, const std::vector<double>& values);

// Adds a constant that takes the place of `old`, and its name, where nobody else reads that; else one named after it.
ValueRef PutConstant(const Graph& graph, GraphEdit& edit, ValueId old, Tensor tensor);

}  // namespace quant
