#include "passes/cleanup/return_input.h"

#include "passes/match.h"

namespace quant {

std::optional<GraphEdit> ReturnInput(const PassContext& context, NodeId node, ValueId x) {
  const Graph& graph = context.graph();
  const ValueId y = OutputOf(graph.node(node), 0);
  if (x == kNoValue || y == kNoValue) return std::nullopt;
  const DType from = graph.value(x).dtype, to = graph.value(y).dtype;
  if (from != DType::kUndefined && to != DType::kUndefined && from != to) {
    return context.Miss("its input is {}, its output {}", NameOf(from), NameOf(to));
  }
  if (!MayReplace(graph, y, x)) return context.Miss("it gives an output of the graph its name");
  GraphEdit edit(node);
  edit.Replace(y, ValueRef::Of(x));
  edit.Remove(node);
  return edit;
}

}  // namespace quant
