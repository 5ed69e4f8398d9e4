// A BatchNormalization goes into the weight and the bias of the linear operator before or after it.
//
//   x ─ Conv(w, b) ─ BatchNormalization ─ z      =>      x ─ Conv(w', b') ─ z
//   x ─ BatchNormalization ─ Conv(w, b) ─ z      =>      x ─ Conv(w', b') ─ z
//
//   f = scale / sqrt(variance + epsilon)         w' = w * f     b' = (b - mean) * f + bias
//
// For Conv, ConvTranspose and Gemm, and for a MatMul of matrices, which becomes a Gemm. The normalization is that of
// inference, its parameters, the weight and the bias are constant, nobody else reads the weight or the value in
// between. Before a Conv only where that pads nothing, unless nothing is shifted; before a ConvTranspose only in the
// latter case.
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> FoldIntoProducer(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const auto op = LinearMaking(context, InputOf(node, 0));
  if (!op) return std::nullopt;
  // The second axis is that of the channels.
  if (op->rank != op->axis_from_end + 2) {
    return context.Miss("the channels of {} are not known to be the second axis", graph.NodeLabel(op->id));
  }
  const auto affine = BatchNormAffine(context, root, op->outputs);
  return affine ? FoldAfter(context, *op, root, *affine) : std::nullopt;
}

std::optional<GraphEdit> FoldIntoReader(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const ValueId y = InputOf(graph.node(root), 0);
  const Node* norm = y == kNoValue ? nullptr : MadeBy(graph, y, "BatchNormalization");
  if (norm == nullptr) return std::nullopt;
  const auto op = LinearAt(context, root);
  if (!op) return std::nullopt;
  if (op->rank != op->axis_from_end + 2) {
    return context.Miss("the channels of its input are not known to be the second axis");
  }
  const NodeId before = ProducerOf(graph, y);
  const auto affine = BatchNormAffine(context, before, op->inputs);
  return affine ? FoldBefore(context, *op, before, ValueRef::Of(norm->inputs[0]), *affine, GraphEdit(root))
                : std::nullopt;
}

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  if (IsOp(context.graph().node(root), "BatchNormalization")) return FoldIntoProducer(context, root);
  return FoldIntoReader(context, root);
}

}  // namespace

const Pass& FoldBatchNormPass() {
  static const Pass pass = {
      .name = "fold-batch-norm",
      .summary =
          "A BatchNormalization goes into the weight and bias of the Conv, ConvTranspose, Gemm or MatMul next to it",
      .roots = {"BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul"},
      .rule = Fold};
  return pass;
}

}  // namespace quant
