// Which nodes any runtime computes before it runs a model, as their inputs are constant: such nodes ask nothing of a
// device.
#pragma once

#include <cstdint>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

// By node id; `opset` is of the default domain. A constant that callers may override (from IR version 4 on, one that is
// an input too) is none; the shape of a value whose dims are known is one.
std::vector<bool> FoldableNodes(const Graph& graph, int64_t ir_version, int64_t opset);

}  // namespace quant
