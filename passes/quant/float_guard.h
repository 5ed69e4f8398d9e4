// Which nodes stay float by default, whatever the patterns say: LayerNormalization and Softmax, as single operators
// or decomposed into the chains that exporters write.
//
//   x ─┬─ ReduceMean ─ Sub ─┬─ Pow(2) or Mul(self) ─ ReduceMean ─ Add(eps) ─ Sqrt ─┐
//      └────────────────────┘└────────────────────────────────────────── Div ── Mul(gamma) ─ Add(beta)
//   x ─ [Sub(ReduceMax)] ─ Exp ─┬─ ReduceSum ─┐
//                               └──────────── Div
#pragma once

#include <string>
#include <unordered_map>

#include "libquant/ir/graph.h"

namespace quant {

// Protected nodes with what they are part of: "LayerNormalization", "decomposed Softmax", ...
using FloatGuard = std::unordered_map<NodeId, std::string>;

FloatGuard FindGuardedNodes(const Graph& graph);

}  // namespace quant
