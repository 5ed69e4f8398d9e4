// Finds scaled dot-product attention as the operators that it is made of.
//
//   q ─ [Mul(a)] ────────────────┐
//   k ─ [Mul(b)] ─ Transpose ─ MatMul ─ [Mul(c)] ─ [Add(mask)] ─ Softmax ─┐
//   v ────────────────────────────────────────────────────────────────── MatMul ─ y
//
// Scales are positive scalars, by Mul or Div. q, k and v have four axes, [batch, heads, length, size]; k may come from
// [batch, length, heads, size] by the one Transpose that swaps it into place for the product.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace quant {

struct DotProductAttention {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue, mask = kNoValue;
  bool k_by_length = false;  // [batch, length, heads, size]
  double scale = 1;
  std::vector<NodeId> parts;  // from the last product up to q, k and v
};

std::optional<DotProductAttention> MatchAttention(const Graph& graph, NodeId last_product);

// nullopt when shapes prove that q, k and v have the same batch and heads, so that nothing is broadcast, and that the
// mask's last axis is as long as k, its others as the scores' or 1; else what they don't prove.
std::optional<std::string> UnprovenShapes(const Graph& graph, const DotProductAttention& found);

// The mask with a row for each query, as operators want it (ONNX Runtime 1.30 refuses another, though ONNX allows it):
// itself, or one row expanded. `q` has its length at axis `length`. No reference when there is no mask; nullopt, with a
// near miss, when the number of rows would have to be computed and the opset is too old.
std::optional<ValueRef> MaskFor(const PassContext& context, GraphEdit& edit, const DotProductAttention& found,
                                ValueId q, size_t length, const std::string& name);

// Whether the types are right and nothing but `last` would be missed by other readers; tells of a near miss.
bool MayFuse(const PassContext& context, const DotProductAttention& found, NodeId last);

}  // namespace quant
