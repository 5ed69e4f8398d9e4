// GroupNormalization in basic operators.
//
//   GroupNormalization<num_groups = G>(x, scale, bias)   =>   r = Reshape(x, [0, G, -1])
//                                                             n = (r - mean) / Sqrt(variance + epsilon)
//                                                             Reshape(n, Shape(x)) * scale[C, 1, ...] + bias[C, 1, ...]
//
// Up to opset 20 scale and bias are per group, [G, 1] before the second Reshape.
//
// Conditions: the rank and the element type are known; computing in float32 is what the node asks for (half inputs then
// get Casts).
#include "passes/convert/speller.h"

namespace quant {
namespace {

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "GroupNormalization")) return std::nullopt;
  const auto stash = StashType(context, node);
  if (!stash) return context.Miss("it does not compute in float32");
  const auto rank = RankOf(graph, InputOf(node, 0));
  if (!rank || *rank < 2) return context.Miss("the rank of its input is not known");
  const bool per_channel = context.opset() >= 21;
  std::vector<int64_t> column(per_channel ? static_cast<size_t>(*rank) - 1 : 2, 1);
  column[0] = -1;
  Speller spell(context, root);
  const DType type = spell.type();
  const ValueRef groups = spell.Ints("groups", {0, node.attributes.Int("num_groups", 1), -1});
  ValueRef y = spell.Op("Reshape", {spell.Input(0), groups});
  y = spell.CastTo(y, *stash);
  y = spell.CastTo(spell.Standardized(y, {-1}, node.attributes.Float("epsilon", 1e-5f)), type);
  const auto apply = [&] {
    const ValueRef as_column = spell.Ints("column", column);
    y = spell.Op("Mul", {y, spell.Op("Reshape", {spell.Input(1), as_column})});
    y = spell.Op("Add", {y, spell.Op("Reshape", {spell.Input(2), as_column})});
  };
  if (!per_channel) apply();
  y = spell.Op("Reshape", {y, spell.Op("Shape", {spell.Input(0)})});
  if (per_channel) apply();
  return spell.Finish(y);
}

}  // namespace

const Pass& DecomposeGroupNormalizationPass() {
  static const Pass pass = {.name = "decompose-group-normalization",
                            .summary = "GroupNormalization in basic operators",
                            .roots = {"GroupNormalization"},
                            .rule = Decompose};
  return pass;
}

}  // namespace quant
