// What a node that only gives back one of its inputs becomes: nothing.
#pragma once

#include <optional>

#include "passes/pass.h"

namespace quant {

// Readers of the node's output 0 read `x` instead, and the node goes. Its other outputs must have no readers. A Miss
// when `x` can't take over the name of a region's output, or is of another type.
std::optional<GraphEdit> ReturnInput(const PassContext& context, NodeId node, ValueId x);

}  // namespace quant
