// Whether a node fits an older definition of its operator: the general part of lowering an opset.
#pragma once

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Makes a node that means the same under the definition of opset `to`, given that it has that of `from`: attributes
// that the older one does not know go when they have their default's value, and so do trailing inputs and outputs left
// out. Unsupported, saying what, when the node makes use of more: attributes, inputs, outputs, element types. A type
// that is not known is taken to fit.
Status FitOlderDefinition(Graph& graph, NodeId node, int64_t from, int64_t to);

}  // namespace quant
