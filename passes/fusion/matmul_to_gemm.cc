// A product of matrices and what is added to it become a Gemm.
//
//   a, b ─ MatMul ─ Add(c) ─ z      =>      a, b, c ─ Gemm ─ z
//
// a and b are known to be matrices, only the Add reads the product, and c, broadcast to the product's shape, does not
// change it. A c that is not constant must be a row or a single value, as a matrix added is rather the other branch of
// a graph. A constant row of dims [1, N] becomes [N], which ONNX Runtime fuses further.
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

bool IsOne(const Dim& d) { return d.value == 1; }
bool Same(const Dim& p, const Dim& q) { return p.known() ? p.value == q.value : !p.symbol.empty() && p == q; }

// c broadcasts to [rows, columns] without changing that.
bool Broadcasts(const Shape& c, const Dim& rows, const Dim& columns) {
  if (c.size() > 2) return false;
  if (!c.empty() && !IsOne(c.back()) && !Same(c.back(), columns)) return false;
  return c.size() < 2 || IsOne(c.front()) || Same(c.front(), rows);
}

bool IsRow(const Shape& c) { return c.size() < 2 || IsOne(c.front()); }

bool GemmTakes(const PassContext& context, DType dtype) {
  if (dtype == DType::kBfloat16) return context.opset() >= 13;
  return dtype == DType::kFloat || dtype == DType::kFloat16 || dtype == DType::kDouble;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root, ValueId product, ValueId c) {
  const Graph& graph = context.graph();
  const NodeId matmul = ProducerOf(graph, product);
  const Node& node = graph.node(matmul);
  const ValueId a = node.inputs[0], b = node.inputs[1];
  const auto &a_shape = graph.value(a).shape, &b_shape = graph.value(b).shape, &c_shape = graph.value(c).shape;
  if (!a_shape || a_shape->size() != 2 || !b_shape || b_shape->size() != 2) {
    return context.Miss("the operands of {} are not known to be matrices", graph.NodeLabel(matmul));
  }
  if (!HasOneReader(graph, product)) return context.Miss("the product is read by others too");
  if (node.region != graph.node(root).region) return context.Miss("the product is made outside of this body");
  if (!GemmTakes(context, graph.value(product).dtype)) {
    return context.Miss("Gemm takes no {}", NameOf(graph.value(product).dtype));
  }
  if (!c_shape || !Broadcasts(*c_shape, a_shape->front(), b_shape->back())) {
    return context.Miss("what is added is not known to broadcast to the product");
  }
  const Tensor* constant = ConstantOf(graph, c);
  if (constant == nullptr && !IsRow(*c_shape)) return context.Miss("what is added is no row");
  GraphEdit edit(root);
  ValueRef bias = ValueRef::Of(c);
  if (constant != nullptr && constant->rank() == 2 && constant->dims()[0] == 1 && HasOneReader(graph, c)) {
    bias = PutConstant(graph, edit, c, constant->Reshaped({constant->dims()[1]}));
  }
  edit.ReplaceNode(root, {.name_hint = "",
                          .op_type = "Gemm",
                          .domain = "",
                          .inputs = {ValueRef::Of(a), ValueRef::Of(b), bias},
                          .outputs = {},
                          .attributes = {},
                          .name_of = matmul});
  return edit;
}

std::optional<GraphEdit> FuseEither(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "Add") || node.inputs.size() != 2 || context.opset() < 7) return std::nullopt;
  for (const size_t i : {0, 1}) {
    if (MadeBy(graph, node.inputs[i], "MatMul") == nullptr) continue;
    if (!context.MayMake("", "Gemm")) return context.Miss("the target runs no Gemm");
    if (auto edit = Fuse(context, root, node.inputs[i], node.inputs[1 - i])) return edit;
  }
  return std::nullopt;
}

}  // namespace

const Pass& MatmulToGemmPass() {
  static const Pass pass = {.name = "matmul-to-gemm",
                            .summary = "A MatMul of matrices and the bias added to it become a Gemm",
                            .roots = {"Add"},
                            .rule = FuseEither};
  return pass;
}

}  // namespace quant
