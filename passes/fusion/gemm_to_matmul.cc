// A Gemm becomes the MatMul and the Add that it stands for, for runtimes that do better with those.
//
//   a, b, c ─ Gemm(alpha, beta, transB) ─ z      =>      a, b' ─ MatMul ─ Add(c') ─ z
//
// transA is not set. b is transposed and multiplied by alpha where it is constant and nobody else reads it, c is
// multiplied by beta where it is constant; otherwise transB is not set, and alpha and beta are 1.
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

// b' = alpha * b, transposed when asked.
std::optional<ValueRef> Right(const PassContext& context, GraphEdit& edit, ValueId b, double alpha, bool transposed) {
  const Graph& graph = context.graph();
  if (alpha == 1 && !transposed) return ValueRef::Of(b);
  if (ConstantOf(graph, b) == nullptr) return context.Miss("its matrix B is not constant");
  if (!HasOneReader(graph, b)) return context.Miss("its matrix B is read by others too");
  const auto values = DoublesOf(graph, b);
  const Dims dims = ConstantOf(graph, b)->dims();
  if (!values || dims.size() != 2) return context.Miss("its matrix B can't be read");
  const auto rows = static_cast<size_t>(dims[0]), columns = static_cast<size_t>(dims[1]);
  std::vector<double> made(values->size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      made[transposed ? c * rows + r : r * columns + c] = (*values)[r * columns + c] * alpha;
    }
  }
  auto tensor = RoundedTensor(graph.value(b).dtype, transposed ? Dims{dims[1], dims[0]} : dims, made);
  if (!tensor) return context.Miss("its matrix B would not be finite");
  return PutConstant(graph, edit, b, *std::move(tensor));
}

// c' = beta * c; none where the Gemm adds nothing.
std::optional<ValueRef> Added(const PassContext& context, GraphEdit& edit, ValueId c, double beta) {
  const Graph& graph = context.graph();
  if (c == kNoValue || beta == 0) return ValueRef::None();
  if (beta == 1) return ValueRef::Of(c);
  auto values = DoublesOf(graph, c);
  if (!values) return context.Miss("its C is not constant and has a factor");
  for (double& v : *values) v *= beta;
  auto tensor = RoundedTensor(graph.value(c).dtype, ConstantOf(graph, c)->dims(), *values);
  if (!tensor) return context.Miss("its C would not be finite");
  return PutConstant(graph, edit, c, *std::move(tensor));
}

std::optional<GraphEdit> Split(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "Gemm") || context.opset() < 7 || node.inputs.size() < 2 || HasReferences(node)) return std::nullopt;
  const Value& y = graph.value(OutputOf(node, 0));
  if (!InfoOf(y.dtype).is_float) return context.Miss("its numbers are not known to be floats");
  if (node.attributes.Int("transA", 0) != 0) return context.Miss("its transA is set");
  if (!context.MayMake("", "MatMul") || !context.MayMake("", "Add")) return context.Miss("the target runs no MatMul");
  GraphEdit edit(root);
  const auto right =
      Right(context, edit, node.inputs[1], node.attributes.Float("alpha", 1), node.attributes.Int("transB", 0) != 0);
  if (!right) return std::nullopt;
  const auto added = Added(context, edit, InputOf(node, 2), node.attributes.Float("beta", 1));
  if (!added) return std::nullopt;
  GraphEdit::NewNode matmul = {.name_hint = node.name,
                               .op_type = "MatMul",
                               .domain = "",
                               .inputs = {ValueRef::Of(node.inputs[0]), *right},
                               .outputs = {},
                               .attributes = {}};
  if (added->id == kNoValue && added->made < 0) {
    edit.ReplaceNode(root, std::move(matmul));
    return edit;
  }
  matmul.name_hint += "_MatMul";
  const ValueRef product = edit.AddNode(std::move(matmul), y.dtype, y.shape);
  edit.ReplaceNode(
      root,
      {.name_hint = "", .op_type = "Add", .domain = "", .inputs = {product, *added}, .outputs = {}, .attributes = {}});
  return edit;
}

}  // namespace

const Pass& GemmToMatmulPass() {
  static const Pass pass = {
      .name = "gemm-to-matmul", .summary = "A Gemm becomes a MatMul and an Add", .roots = {"Gemm"}, .rule = Split};
  return pass;
}

}  // namespace quant
