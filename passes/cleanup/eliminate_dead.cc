// What nobody reads goes: nodes, constants, and outputs that an operator may leave out.
//
//   y, mask = Dropout(x)   unused initializer w        =>        y = Dropout(x)
//
// The driver sweeps nodes and constants after every change; this pass does it where nothing else changes. Graph inputs
// and outputs stay. Outputs are left out only of operators that compute the same without them.
#include <algorithm>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

struct OptionalOutputs {
  std::string_view domain;
  std::string_view op_type;
  size_t first;  // it and those after it
};

constexpr OptionalOutputs kOptional[] = {{"", "Dropout", 1},
                                         {"", "GRU", 0},
                                         {"", "LSTM", 0},
                                         {"", "LayerNormalization", 1},
                                         {"", "MaxPool", 1},
                                         {"", "RNN", 0},
                                         {"", "Unique", 1},
                                         {"com.microsoft", "SkipLayerNormalization", 1},
                                         {"com.microsoft", "SkipSimplifiedLayerNormalization", 1}};

int LeaveOutOutputs(Graph& graph, NodeId id) {
  Node& node = graph.node(id);
  const auto* op = std::find_if(std::begin(kOptional), std::end(kOptional),
                                [&](const OptionalOutputs& o) { return IsOp(node, o.domain, o.op_type); });
  if (op == std::end(kOptional)) return 0;
  int changes = 0;
  for (size_t i = op->first; i < node.outputs.size(); ++i) {
    const ValueId v = node.outputs[i];
    if (v == kNoValue || !graph.value(v).uses.empty()) continue;
    graph.value(v).removed = true;
    node.outputs[i] = kNoValue;
    ++changes;
  }
  while (changes > 0 && !node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
  return changes;
}

StatusOr<int> Eliminate(const PassContext& /*context*/, Graph& graph) {
  int changes = graph.RemoveUnused();
  for (NodeId n : graph.AllNodes()) changes += LeaveOutOutputs(graph, n);
  return changes;
}

}  // namespace

const Pass& EliminateDeadPass() {
  static const Pass pass = {.name = "eliminate-dead",
                            .summary = "Nodes, constants and optional outputs that nobody reads go",
                            .run = Eliminate};
  return pass;
}

}  // namespace quant
