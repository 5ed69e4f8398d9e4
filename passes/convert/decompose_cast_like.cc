// CastLike as a Cast, which older opsets have.
//
//   CastLike(x, y)   =>   Cast<to = type of y>(x)
//
// Condition: the type of y is known.
#include "libquant/model/signature.h"
#include "passes/convert/speller.h"

namespace quant {
namespace {

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "CastLike")) return std::nullopt;
  const DType to = DTypeOfValue(graph, InputOf(node, 1));
  if (to == DType::kUndefined) return context.Miss("the type it casts to is not known");
  GraphEdit edit(root);
  GraphEdit::NewNode cast{"", "Cast", "", {ValueRef::Of(InputOf(node, 0))}, {}, node.attributes};
  cast.attributes.Set("to", static_cast<int64_t>(to));
  edit.ReplaceNode(root, std::move(cast));
  return edit;
}

}  // namespace

const Pass& DecomposeCastLikePass() {
  static const Pass pass = {
      .name = "decompose-cast-like", .summary = "CastLike as a Cast", .roots = {"CastLike"}, .rule = Decompose};
  return pass;
}

}  // namespace quant
