// x times the hyperbolic tangent of its softplus becomes one operator, from opset 18 on.
//
//   x ─┬─ Softplus ─ Tanh ─┐
//      └────────────────── Mul ─ y        =>        x ─ Mish ─ y
//
// Softplus may be spelled out as Exp, Add(1), Log.
#include "passes/fusion/activation.h"
#include "passes/match.h"

namespace quant {
namespace {

// What the value is the softplus of.
ValueId SoftplusOf(const Graph& graph, ValueId value, std::vector<NodeId>& parts) {
  parts.push_back(ProducerOf(graph, value));
  if (const Node* softplus = MadeBy(graph, value, "Softplus")) return InputOf(*softplus, 0);
  const Node* log = MadeBy(graph, value, "Log");
  const Node* add = log != nullptr ? MadeBy(graph, InputOf(*log, 0), "Add") : nullptr;
  if (add == nullptr) return kNoValue;
  for (const size_t i : {0, 1}) {
    const Node* exp = MadeBy(graph, InputOf(*add, i), "Exp");
    if (exp == nullptr || NumberBeside(graph, InputOf(*add, 1 - i), InputOf(*add, i)) != 1) continue;
    parts.push_back(ProducerOf(graph, InputOf(*log, 0)));
    parts.push_back(ProducerOf(graph, InputOf(*add, i)));
    return InputOf(*exp, 0);
  }
  return kNoValue;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  for (const size_t i : {0, 1}) {
    const Node* tanh = MadeBy(graph, InputOf(node, i), "Tanh");
    if (tanh == nullptr) continue;
    GatedFunction match = {.x = InputOf(node, 1 - i), .function = ProducerOf(graph, InputOf(node, i))};
    match.parts = {root, match.function};
    if (match.x == kNoValue || SoftplusOf(graph, InputOf(*tanh, 0), match.parts) != match.x) continue;
    if (!context.MayMake("", "Mish")) return context.Miss("Mish needs opset 18 and a target that has it");
    if (!MayTakeOver(context, match, root)) return std::nullopt;
    return TakeOver(root, match.x, "", "Mish");
  }
  return std::nullopt;
}

}  // namespace

const Pass& FuseMishPass() {
  static const Pass pass = {
      .name = "fuse-mish", .summary = "x times the tanh of its softplus becomes Mish", .roots = {"Mul"}, .rule = Fuse};
  return pass;
}

}  // namespace quant
