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
  const Node& node = context.graph().node(root);
  if (!IsOp(node, "LayerNormalization")) return std::nullopt;
  const auto norm = ReadNorm(context, node, "mean or inverse deviation");
  if (!norm) return std::nullopt;
  Speller spell(context, root);
  const DType type = spell.type();
  ValueRef y = spell.CastTo(spell.Input(0), norm->stash);
  y = spell.Standardized(y, norm->axes, norm->epsilon);
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
