// A constant added to what a linear operator gives, or to what it is given, becomes its bias.
//
//   x ─ Conv(w, b) ─ Add(c) ─ z      =>      x ─ Conv(w, b + c) ─ z            Sub(c) and Sub(c, ·) as well
//   x ─ Add(c) ─ Conv(w, b) ─ z      =>      x ─ Conv(w, b + sum of w * c) ─ z
//
// For Conv, ConvTranspose and Gemm. The constant has one value or one for each channel and does not change the shape;
// weight and bias are constant, and nobody else reads the value in between. Before a Conv only where that pads nothing;
// never before a ConvTranspose. What is added after a MatMul is matmul-to-gemm's.
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const bool adds = IsOp(node, "Add") || IsOp(node, "Sub");
  if (adds && MadeBy(graph, VariableOperand(graph, node), "MatMul") != nullptr) return std::nullopt;
  return FoldElementwise(context, root, {"Add", "Sub"});
}

}  // namespace

const Pass& FoldBiasPass() {
  static const Pass pass = {
      .name = "fold-bias",
      .summary = "A constant added before or after a Conv, ConvTranspose or Gemm becomes its bias",
      .roots = {"Add", "Sub", "Conv", "ConvTranspose", "Gemm"},
      .rule = Fold};
  return pass;
}

}  // namespace quant
