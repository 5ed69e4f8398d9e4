// Finds Softmax as the chain of operators that it is made of.
//
//   x ─ [Sub(ReduceMax)] ─ Exp ─┬─ ReduceSum ─┐
//                               └──────────── Div
//
// Also with Mul by a Reciprocal. Casts and Identities are looked through. What is found is the structure: axes, types,
// and who else reads what, are for the caller to look at.
#pragma once

#include <optional>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct DecomposedSoftmax {
  ValueId x = kNoValue;         // what Exp reads
  NodeId sum = kNoNode;         // the ReduceSum
  NodeId difference = kNoNode;  // the Sub that makes x from a value and its maximum, if there is one
  NodeId max = kNoNode;         // the ReduceMax that it takes away
  std::vector<NodeId> parts;    // from the root up to x
  bool casts = false;           // whether any of them is a Cast
};

std::optional<DecomposedSoftmax> MatchDecomposedSoftmax(const Graph& graph, NodeId root);

}  // namespace quant
