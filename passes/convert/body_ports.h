// What goes in and out of the bodies of If, Loop and Scan: values of several names that have one element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

// One of them. A Loop's variable has all four: what it starts from, what each run gets and gives, what is left in the
// end. The output of an If has one in each body.
struct BodyPort {
  std::optional<size_t> input, output;                   // of the node
  std::vector<std::pair<RegionId, size_t>> body_inputs;  // at most one
  std::vector<std::pair<RegionId, size_t>> body_outputs;
  bool carried = false;  // from one run to the next
};

// Those of a node; a Loop's count and condition are left out. Nullopt for an operator whose bodies are used in another
// way, and when bodies don't fit the node.
std::optional<std::vector<BodyPort>> BodyPortsOf(const Graph& graph, NodeId node, int64_t opset);

// The values that a port joins, those of inputs and outputs that are left out not.
std::vector<ValueId> ValuesOf(const Graph& graph, NodeId node, const BodyPort& port);

}  // namespace quant
