#include "passes/fusion/activation.h"

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
  const auto why = WhyNotFreed(graph, gated.parts, root);
  if (why) context.Miss("{}", *why);
  return !why;
}

GraphEdit TakeOver(NodeId root, ValueId x, std::string_view domain, std::string_view op_type, Attributes attributes) {
  GraphEdit edit(root);
  GraphEdit::NewNode node = NewNodeOf(domain, op_type, {ValueRef::Of(x)});
  node.attributes = std::move(attributes);
  edit.ReplaceNode(root, std::move(node));
  return edit;
}

}  // namespace quant
