// RMSNormalization, and ONNX Runtime's older name for it, in basic operators.
//
//   RMSNormalization(x, scale)   =>   x / Sqrt(ReduceMean(x * x) + epsilon) * scale
//
// Conditions: the inverse root is not read, the element type is known, computing in float32 is what the node asks for
// (half inputs then get Casts), and a positive axis has a known rank.
#include "passes/convert/speller.h"

namespace quant {
namespace {

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "RMSNormalization") && !IsOp(node, "SimplifiedLayerNormalization")) return std::nullopt;
  if (ReadsMore(graph, node, 1)) return context.Miss("its inverse root is read");
  const auto stash = StashType(context, node);
  if (!stash) return context.Miss("it does not compute in float32");
  const auto axes = AxesFrom(graph, InputOf(node, 0), node.attributes.Int("axis", -1));
  if (!axes) return context.Miss("the rank of its input is not known");
  Speller spell(context, root);
  const DType type = spell.type();
  ValueRef y = spell.CastTo(spell.Input(0), *stash);
  y = spell.OverRms(y, *axes, node.attributes.Float("epsilon", 1e-5f));
  return spell.Finish(spell.Op("Mul", {spell.CastTo(y, type), spell.Input(1)}));
}

}  // namespace

const Pass& DecomposeRmsNormalizationPass() {
  static const Pass pass = {.name = "decompose-rms-normalization",
                            .summary = "RMSNormalization in basic operators",
                            .roots = {"RMSNormalization", "SimplifiedLayerNormalization"},
                            .rule = Decompose};
  return pass;
}

}  // namespace quant
