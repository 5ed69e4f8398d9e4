#include "passes/decomposed_softmax.h"

#include "passes/match.h"

namespace quant {
namespace {

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  std::optional<DecomposedSoftmax> Run(NodeId root) {
    const Node& node = graph_.node(root);
    found_.parts = {root};
    NodeId exp = kNoNode;
    if (IsOp(node, "Div")) {
      exp = ExpOver(InputOf(node, 0), InputOf(node, 1));
    } else if (IsOp(node, "Mul")) {
      for (const size_t i : {0, 1}) {
        const NodeId reciprocal = exp == kNoNode ? Take(InputOf(node, i), "Reciprocal") : kNoNode;
        if (reciprocal != kNoNode) exp = ExpOver(InputOf(node, 1 - i), InputOf(graph_.node(reciprocal), 0));
      }
    }
    if (exp == kNoNode) return std::nullopt;
    found_.x = InputOf(graph_.node(exp), 0);
    const size_t before = found_.parts.size();
    found_.difference = Take(found_.x, "Sub");
    if (found_.difference != kNoNode) found_.max = Take(InputOf(graph_.node(found_.difference), 1), "ReduceMax");
    if (found_.max == kNoNode) found_.difference = kNoNode;
    found_.parts.resize(before);
    for (NodeId n : found_.parts) found_.casts = found_.casts || IsOp(graph_.node(n), "Cast");
    return std::move(found_);
  }

 private:
  NodeId Take(ValueId v, std::string_view op_type) { return quant::Take(graph_, v, op_type, found_.parts, true); }

  NodeId ExpOver(ValueId above, ValueId below) {
    const NodeId exp = Take(above, "Exp");
    found_.sum = exp != kNoNode ? Take(below, "ReduceSum") : kNoNode;
    if (found_.sum == kNoNode || Take(InputOf(graph_.node(found_.sum), 0), "Exp") != exp) return kNoNode;
    return exp;
  }

  const Graph& graph_;
  DecomposedSoftmax found_;
};

}  // namespace

std::optional<DecomposedSoftmax> MatchDecomposedSoftmax(const Graph& graph, NodeId root) {
  return Matcher(graph).Run(root);
}

}  // namespace quant
