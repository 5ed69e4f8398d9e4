// An Identity's readers read what it reads.
//
//   x ─ Identity ─ y ─ Op        =>        x ─ Op
//
// Kept where it gives a region's output a name that its input can't take over (an input, a weight, an outer value or
// another output).
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

std::optional<GraphEdit> Eliminate(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "Identity")) return std::nullopt;
  const ValueId x = InputOf(node, 0), y = OutputOf(node, 0);
  if (!MayReplace(graph, y, x)) return context.Miss("it gives an output of the graph its name");
  GraphEdit edit(root);
  edit.Replace(y, ValueRef::Of(x));
  edit.Remove(root);
  return edit;
}

}  // namespace

const Pass& EliminateIdentityPass() {
  static const Pass pass = {.name = "eliminate-identity",
                            .summary = "Readers of an Identity read its input",
                            .roots = {"Identity"},
                            .rule = Eliminate};
  return pass;
}

}  // namespace quant
