// com.microsoft SkipLayerNormalization and SkipSimplifiedLayerNormalization in basic operators.
//
//   SkipLayerNormalization(x, skip, gamma, beta, bias)   =>   s = x + skip + bias
//                                                             d = s - ReduceMean(s)
//                                                             d / Sqrt(ReduceMean(d * d) + epsilon) * gamma + beta
//
// The simplified one takes no mean off and has no beta. The sum s is the node's output 3, if there is one.
//
// Conditions: mean and inverse deviation are not read, and the input is float32.
#include "passes/convert/speller.h"

namespace quant {
namespace {

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const bool simple = IsOp(node, "com.microsoft", "SkipSimplifiedLayerNormalization");
  if (!simple && !IsOp(node, "com.microsoft", "SkipLayerNormalization")) return std::nullopt;
  for (const ValueId v : {OutputOf(node, 1), OutputOf(node, 2)}) {
    if (v != kNoValue && !graph.value(v).uses.empty()) return context.Miss("its mean or inverse deviation is read");
  }
  Speller spell(context, root);
  if (spell.type() != DType::kFloat) return context.Miss("its input is not float32");
  const size_t bias = simple ? 3 : 4;
  ValueRef sum = spell.Op("Add", {spell.Input(0), spell.Input(1)});
  if (spell.HasInput(bias)) sum = spell.Op("Add", {sum, spell.Input(bias)});
  const float epsilon = node.attributes.Float("epsilon", 1e-12f);
  ValueRef y = simple ? spell.OverRms(sum, {-1}, epsilon) : spell.Standardized(sum, {-1}, epsilon);
  y = spell.Op("Mul", {y, spell.Input(2)});
  if (!simple && spell.HasInput(3)) y = spell.Op("Add", {y, spell.Input(3)});
  return spell.Finish(y, {{3, sum}});
}

}  // namespace

const Pass& DecomposeSkipLayerNormalizationPass() {
  static const Pass pass = {.name = "decompose-skip-layer-normalization",
                            .summary = "SkipLayerNormalization in basic operators",
                            .roots = {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"},
                            .rule = Decompose};
  return pass;
}

}  // namespace quant
