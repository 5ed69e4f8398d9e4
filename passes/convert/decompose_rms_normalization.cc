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
  const Node& node = context.graph().node(root);
  if (!IsOp(node, "RMSNormalization") && !IsOp(node, "SimplifiedLayerNormalization")) return std::nullopt;
  const auto norm = ReadNorm(context, node, "inverse root");
  if (!norm) return std::nullopt;
  Speller spell(context, root);
  const DType type = spell.type();
  ValueRef y = spell.CastTo(spell.Input(0), norm->stash);
  y = spell.OverRms(y, norm->axes, norm->epsilon);
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
