#include "passes/fusion/activation.h"

#include <algorithm>

#include "passes/match.h"

namespace quant {

Polynomial Terms(std::initializer_list<Term> terms) {
  Polynomial p;
  for (const Term& t : terms) p.of[static_cast<size_t>(t.x)][static_cast<size_t>(t.e)] = t.factor;
  return p;
}

DType TypeOf(const Graph& graph, ValueId value) { return graph.value(value).dtype; }

std::optional<GatedFunction> FindGated(const Graph& graph, NodeId root, std::string_view function,
                                       const std::function<bool(const GatedFunction&)>& accepts) {
  for (GatedFunction& gated : ReadGated(graph, root, function)) {
    if (accepts(gated)) return std::move(gated);
  }
  return std::nullopt;
}

bool MayTakeOver(const PassContext& context, const GatedFunction& gated, NodeId root) {
  const Graph& graph = context.graph();
  const DType dtype = TypeOf(graph, gated.x);
  if (dtype != DType::kFloat && dtype != DType::kFloat16) {
    context.Miss("{} is not handled", NameOf(dtype));
    return false;
  }
  const auto elsewhere = [&](NodeId n) { return graph.node(n).region != graph.node(root).region; };
  if (std::any_of(gated.parts.begin(), gated.parts.end(), elsewhere)) {
    context.Miss("part of it lies outside of the body");
    return false;
  }
  const ValueId value = ReadElsewhere(graph, gated.parts, root);
  if (value != kNoValue) context.Miss("'{}' inside of it has another reader", graph.value(value).name);
  return value == kNoValue;
}

GraphEdit TakeOver(NodeId root, ValueId x, std::string_view domain, std::string_view op_type, Attributes attributes) {
  GraphEdit edit(root);
  GraphEdit::NewNode node = NewNodeOf(domain, op_type, {ValueRef::Of(x)});
  node.attributes = std::move(attributes);
  edit.ReplaceNode(root, std::move(node));
  return edit;
}

}  // namespace quant
