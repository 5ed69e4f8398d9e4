// Which nodes stay float by default, whatever the patterns say: LayerNormalization and Softmax, as single operators
// or decomposed into the chains that exporters write
// (decomposed_norm.h, decomposed_softmax.h).
#pragma once

#include <string>
#include <unordered_map>

#include "libquant/ir/graph.h"

namespace quant {

// Protected nodes with what they are part of: "LayerNormalization", "decomposed Softmax", ...
using FloatGuard = std::unordered_map<NodeId, std::string>;

FloatGuard FindGuardedNodes(const Graph& graph);

}  // namespace quant
