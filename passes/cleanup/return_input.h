// What a node becomes that only gives back a value there is already: nothing.
#pragma once

#include <optional>

#include "passes/pass.h"

namespace quant {

// Readers of the node's output 0 read `x` instead, and the node goes; its other outputs must have no readers. Where `x`
// can't take over the name of a region's output, an Identity takes the node's place to give it, and only that output
// reads it. A Miss when the types differ, or the node is such an Identity already.
std::optional<GraphEdit> ReturnInput(const PassContext& context, NodeId node, ValueId x);

}  // namespace quant
