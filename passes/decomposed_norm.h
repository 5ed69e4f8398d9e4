// Finds LayerNormalization and RMS normalization as the chains of operators that exporters write.
//
//   x ─┬─ ReduceMean ─ Sub ─┬─ Pow(2) or Mul(self) ─ ReduceMean ─ Add(eps) ─ Sqrt ─┐
//      └────────────────────┘└────────────────────────────────────────── Div ── Mul(gamma) ─ Add(beta)
//
// Also with Mul by a Reciprocal, by 1 / Sqrt or by Pow(-0.5) instead of Div; with the centring written twice; without
// centring, which is RMS normalization; and as TensorFlow has it,
//
//   s = gamma / Sqrt(ReduceMean((x - mean)^2) + eps)        x * s + (beta - mean * s)
//
// Casts and Identities are looked through. What is found is the structure: axes, types, and who else reads what, are
// for the caller to look at.
#pragma once

#include <optional>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct DecomposedNorm {
  NodeId root = kNoNode;       // makes the normalized value: Div, Mul, or TensorFlow's Add
  ValueId x = kNoValue;        // what is normalized
  std::vector<NodeId> means;   // the ReduceMeans that centring takes away; none: RMS normalization
  NodeId variance = kNoNode;   // the ReduceMean of squares
  ValueId epsilon = kNoValue;  // may be left out
  ValueId scale = kNoValue;    // of TensorFlow's form, where it has one
  ValueId shift = kNoValue;    // always in TensorFlow's form
  std::vector<NodeId> parts;   // root, and all nodes above it up to x
  std::vector<NodeId> casts;   // those parts that are Casts
};

// The normalization that ends at `root`, before scale and shift unless they are inside.
std::optional<DecomposedNorm> MatchDecomposedNorm(const Graph& graph, NodeId root);

}  // namespace quant
