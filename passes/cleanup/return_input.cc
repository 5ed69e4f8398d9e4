#include "passes/cleanup/return_input.h"

#include "passes/match.h"

namespace quant {

std::optional<GraphEdit> ReturnInput(const PassContext& context, NodeId node, ValueId x) {
  const Graph& graph = context.graph();
  const Node& old = graph.node(node);
  const ValueId y = OutputOf(old, 0);
  if (x == kNoValue || y == kNoValue) return std::nullopt;
  const DType from = graph.value(x).dtype, to = graph.value(y).dtype;
  if (from != DType::kUndefined && to != DType::kUndefined && from != to) {
    return context.Miss("its input is {}, its output {}", NameOf(from), NameOf(to));
  }
  GraphEdit edit(node);
  if (MayReplace(graph, y, x)) {
    edit.Replace(y, ValueRef::Of(x));
    edit.Remove(node);
    return edit;
  }
  bool has_readers = false;
  for (const Use& use : graph.value(y).uses) {
    if (use.node == kNoNode) continue;
    edit.SetInput(use.node, use.index, ValueRef::Of(x));
    has_readers = true;
  }
  const bool is_identity = IsOp(old, "Identity") && old.inputs == std::vector<ValueId>{x};
  if (is_identity ? !has_readers : old.outputs.size() > 1) {
    return context.Miss("it gives an output of the graph its name");
  }
  if (!is_identity) edit.ReplaceNode(node, {old.name, "Identity", old.domain, {ValueRef::Of(x)}, {}, {}});
  return edit;
}

}  // namespace quant
