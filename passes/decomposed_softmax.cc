#include "passes/decomposed_softmax.h"

#include "passes/match.h"

namespace quant {
namespace {

constexpr int kMostPassed = 8;  // Casts and Identities in a row

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
  // The producer of that type behind Casts and Identities, all of which become parts.
  NodeId Take(ValueId v, std::string_view op_type) {
    std::vector<NodeId> passed;
    for (int i = 0; i < kMostPassed; ++i) {
      const NodeId p = ProducerOf(graph_, v);
      if (p == kNoNode || graph_.node(p).inputs.empty()) return kNoNode;
      passed.push_back(p);
      if (IsOp(graph_.node(p), op_type)) {
        found_.parts.insert(found_.parts.end(), passed.begin(), passed.end());
        return p;
      }
      if (!IsOp(graph_.node(p), "Cast") && !IsOp(graph_.node(p), "Identity")) return kNoNode;
      v = InputOf(graph_.node(p), 0);
    }
    return kNoNode;
  }

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
