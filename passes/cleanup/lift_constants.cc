// Constant nodes become initializers of the graph or body they are in.
//
//   w = Constant<value = ...>   y = Add(x, w)        =>        initializer w   y = Add(x, w)
//
// To passes the two are the same; runtimes and viewers read initializers better, and a node less is a node less. Not
// in functions, which have no initializers, nor below IR 4, where each would have to be an input, and not for a
// constant that is an output of its graph.
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr int64_t kFirstWithoutListing = 4;

StatusOr<int> Lift(const PassContext& context, Graph& graph) {
  if (graph.is_function || context.model().ir_version < kFirstWithoutListing) return 0;
  int changes = 0;
  for (NodeId n : graph.AllNodes()) {
    const ValueId v = OutputOf(graph.node(n), 0);
    if (!IsOp(graph.node(n), "Constant") || v == kNoValue || !graph.value(v).constant || IsRegionOutput(graph, v)) {
      continue;
    }
    graph.node(n).outputs.clear();
    graph.RemoveNode(n);
    Value& value = graph.value(v);
    value.producer = kNoNode;
    value.is_initializer = true;
    graph.region(value.region).initializers.push_back(v);
    ++changes;
  }
  return changes;
}

}  // namespace

const Pass& LiftConstantsPass() {
  static const Pass pass = {.name = "lift-constants", .summary = "Constant nodes become initializers", .run = Lift};
  return pass;
}

}  // namespace quant
