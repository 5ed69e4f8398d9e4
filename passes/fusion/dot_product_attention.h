// Finds scaled dot-product attention as the operators that it is made of.
//
//   q ─ [Mul(a)] ────────────────┐
//   k ─ [Mul(b)] ─ Transpose ─ MatMul ─ [Mul(c)] ─ [Where, Add(mask)] ─ Softmax ─┐
//   v ──────────────────────────────────────────────────────────────────────── MatMul ─ y
//
// Scales are positive scalars, by Mul or Div. q, k and v have four axes, [batch, heads, length, size]; k may come from
// [batch, length, heads, size] by the one Transpose that swaps it into place for the product. Where(condition, scores,
// number) or Where(condition, number, scores) and Add stand in any order, each once at most.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/fusion/causal_mask.h"
#include "passes/pass.h"

namespace quant {

struct DotProductAttention {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue, mask = kNoValue;
  bool k_by_length = false;  // [batch, length, heads, size]
  double scale = 1;
  // Of Where: scores that it hides are `hidden`, a constant of one element.
  ValueId condition = kNoValue, hidden = kNoValue;
  bool condition_hides = false;  // where it is true; else where it is false
  bool where_last = false;       // it comes after the Add
  std::vector<NodeId> parts;     // from the last product up to q, k and v
};

std::optional<DotProductAttention> MatchAttention(const Graph& graph, NodeId last_product);

// The lengths as masks know them; without a past.
AttentionLengths LengthsOf(const Graph& graph, const DotProductAttention& found);

// nullopt when shapes prove that q, k and v have the same batch and heads, so that nothing is broadcast; else what they
// don't prove.
std::optional<std::string> UnprovenShapes(const Graph& graph, const DotProductAttention& found);

// nullopt when numbers added to the scores hide as mask and condition do, for every input, and their last axis is as
// long as k, the others as the scores' or 1; else what stands against it.
//
// A query all of whose keys are hidden by -infinity gets NaN from Softmax and 0 from the operators. So a mask must be
// finite in every element, as far as its making shows, or hide by Where what comes after a query and be finite
// elsewhere: then each query sees itself. A mask that a caller gives may hold -infinity. -10000 and finfo.min are added
// as they are, so that a query which sees nothing has the answer that it had.
//
// Where puts its number in the place of a score, which is the same as adding it only if the number swallows the score:
// float32 of -1e30 and lower. (-10000 would let scores through in rows without a key that is seen, and large ones
// elsewhere.)
std::optional<std::string> UnprovenMask(const Graph& graph, const DotProductAttention& found,
                                        const AttentionLengths& lengths);

// What to add to the scores, of as many axes as it takes, with a row for each query, as operators want it (ONNX Runtime
// 1.30 refuses another, though ONNX allows it): the mask itself, or one row expanded, or made with the condition. `q`
// has its length at axis `length`. No reference when nothing is added; nullopt, with a near miss, when the number of
// rows would have to be computed and the opset is too old.
std::optional<ValueRef> MaskFor(const PassContext& context, GraphEdit& edit, const DotProductAttention& found,
                                ValueId q, size_t length, const std::string& name);

// Whether the types are right and nothing but `last` would be missed by other readers; tells of a near miss.
bool MayFuse(const PassContext& context, const DotProductAttention& found, NodeId last);

}  // namespace quant
