// LayerNormalization in basic operators.
//
//   LayerNormalization(x, scale, bias)   =>   d = x - ReduceMean(x)
//                                             d / Sqrt(ReduceMean(d * d) + epsilon) * scale + bias
//
// Conditions: mean and inverse deviation are not read, the element type is known, computing in float32 is what the node
// asks for (half inputs then get Casts), and a positive axis has a known rank.
#include "passes/convert/speller.h"

namespace quant {
namespace {

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "LayerNormalization")) return std::nullopt;
  if (ReadsMore(graph, node, 1)) return context.Miss("its mean or inverse deviation is read");
  const auto stash = StashType(context, node);
  if (!stash) return context.Miss("it does not compute in float32");
  const auto axes = AxesFrom(graph, InputOf(node, 0), node.attributes.Int("axis", -1));
  if (!axes) return context.Miss("the rank of its input is not known");
  Speller spell(context, root);
  const DType type = spell.type();
  ValueRef y = spell.CastTo(spell.Input(0), *stash);
  y = spell.Standardized(y, *axes, node.attributes.Float("epsilon", 1e-5f));
  y = spell.Op("Mul", {spell.CastTo(y, type), spell.Input(1)});
  if (spell.HasInput(2)) y = spell.Op("Add", {y, spell.Input(2)});
  return spell.Finish(y);
}

}  // namespace

const Pass& DecomposeLayerNormalizationPass() {
  static const Pass pass = {.name = "decompose-layer-normalization",
                            .summary = "LayerNormalization in basic operators",
                            .roots = {"LayerNormalization"},
                            .rule = Decompose};
  return pass;
}

}  // namespace quant
