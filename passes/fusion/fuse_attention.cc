// Scaled dot-product attention as the operators that it is made of becomes one, from opset 23 on.
//
//   q ─ [Mul(a)] ────────────────┐
//   k ─ [Mul(b)] ─ Transpose ─ MatMul ─ [Mul(c)] ─ [Where, Add(mask)] ─ Softmax ─┐
//   v ──────────────────────────────────────────────────────────────────────── MatMul ─ y
//   =>
//   q, k, v, mask ─ Attention(scale = abc) ─ y
//
// What is found, and what shapes must prove, dot_product_attention.h says. Nothing else reads what lies between.
// float32 and float16.
#include "passes/fusion/dot_product_attention.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const auto found = MatchAttention(graph, root);
  if (!found) return std::nullopt;
  if (!context.MayMake("", "Attention")) return context.Miss("Attention needs opset 23 and a target that has it");
  if (const auto unproven = UnprovenShapes(graph, *found)) return context.Miss("{}", *unproven);
  if (const auto unproven = UnprovenMask(graph, *found, LengthsOf(graph, *found))) {
    return context.Miss("{}", *unproven);
  }
  if (!MayFuse(context, *found, root)) return std::nullopt;
  const Value& q = graph.value(found->q);
  GraphEdit edit(root);
  ValueRef k = ValueRef::Of(found->k);
  if (found->k_by_length) {
    const Shape& shape = *graph.value(found->k).shape;
    auto transpose = NewNodeOf("", "Transpose", {k});
    transpose.name_hint = graph.node(root).name + "_keys";
    transpose.attributes.Set("perm", std::vector<int64_t>{0, 2, 1, 3});
    k = edit.AddNode(std::move(transpose), q.dtype, Shape{shape[0], shape[2], shape[1], shape[3]});
  }
  auto node = NewNodeOf("", "Attention", {ValueRef::Of(found->q), k, ValueRef::Of(found->v)});
  const auto mask = MaskFor(context, edit, *found, found->q, 2, graph.node(root).name);
  if (!mask) return std::nullopt;
  if (found->mask != kNoValue || found->condition != kNoValue) node.inputs.push_back(*mask);
  node.attributes.Set("scale", static_cast<float>(found->scale));
  edit.ReplaceNode(root, std::move(node));
  return edit;
}

}  // namespace

const Pass& FuseAttentionPass() {
  static const Pass pass = {.name = "fuse-attention",
                            .summary = "Products, Softmax and product that make up attention become Attention",
                            .roots = {"MatMul"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
