// Attention between the transposes that split its heads and put them together becomes com.microsoft MultiHeadAttention,
// on targets that have it.
//
//   q [batch, length, heads, size] ─ Transpose ─┐
//   k [batch, length, heads, size] ─ Transpose ─ attention ─ Transpose ─ y [batch, length, heads, size]
//   v [batch, length, heads, size] ─ Transpose ─┘
//   =>
//   q, k, v ─ Reshape to [batch, length, heads * size] each ─ MultiHeadAttention ─ Reshape ─ y
//
// The Reshapes move nothing; the transposes are gone. What attention is, and what shapes must prove,
// dot_product_attention.h says. A mask has four axes.
#include <array>

#include "passes/fusion/dot_product_attention.h"
#include "passes/match.h"

namespace quant {
namespace {

const std::vector<int64_t>& Swap() {
  static const std::vector<int64_t> perm = {0, 2, 1, 3};
  return perm;
}

// What is transposed to [batch, heads, length, size]; kNoValue when that is not how the value is made.
ValueId BeforeSwap(const Graph& graph, ValueId value) {
  const Node* transpose = MadeBy(graph, value, "Transpose");
  if (transpose == nullptr || HasReferences(*transpose) || transpose->attributes.Ints("perm") != Swap())
    return kNoValue;
  return transpose->inputs[0];
}

struct Heads {
  DotProductAttention found;
  NodeId last = kNoNode;                                           // the Transpose behind it
  std::array<ValueId, 3> inputs = {kNoValue, kNoValue, kNoValue};  // q, k, v as [batch, length, heads, size]
  int64_t heads = 0;
};

std::optional<Heads> FindHeads(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  auto found = MatchAttention(graph, root);
  if (!found) return std::nullopt;
  Heads out;
  out.last = OnlyReader(graph, graph.node(root).outputs[0]);
  if (out.last == kNoNode || BeforeSwap(graph, OutputOf(graph.node(out.last), 0)) == kNoValue) {
    return context.Miss("no Transpose puts the heads together behind it");
  }
  out.inputs = {BeforeSwap(graph, found->q), found->k_by_length ? found->k : BeforeSwap(graph, found->k),
                BeforeSwap(graph, found->v)};
  for (ValueId v : out.inputs) {
    if (v == kNoValue)
      return context.Miss("queries, keys or values are not transposed from [batch, length, heads, size]");
  }
  out.found = *std::move(found);
  return out;
}

// [batch, length, heads, size] as [batch, length, heads * size].
ValueRef Flattened(const PassContext& context, GraphEdit& edit, ValueId value, const std::string& name) {
  const Value& v = context.graph().value(value);
  const Shape& shape = *v.shape;
  const std::vector<int64_t> dims = {0, 0, shape[2].value * shape[3].value};
  const ValueRef wanted = edit.AddConstant(name + "_shape", Tensor::Of<int64_t>({3}, dims));
  auto reshape = NewNodeOf("", "Reshape", {ValueRef::Of(value), wanted});
  reshape.name_hint = name;
  return edit.AddNode(std::move(reshape), v.dtype, Shape{shape[0], shape[1], {dims[2], ""}});
}

std::optional<GraphEdit> Rewrite(const PassContext& context, const Heads& heads) {
  const Graph& graph = context.graph();
  GraphEdit edit(heads.last);
  const std::string& name = graph.node(heads.last).name;
  const Shape &q = *graph.value(heads.inputs[0]).shape, &v = *graph.value(heads.inputs[2]).shape;
  auto node = NewNodeOf("com.microsoft", "MultiHeadAttention", {});
  constexpr std::array<const char*, 3> kNames = {"_queries", "_keys", "_values"};
  for (size_t i = 0; i < 3; ++i) node.inputs.push_back(Flattened(context, edit, heads.inputs[i], name + kNames[i]));
  const auto mask = MaskFor(context, edit, heads.found, heads.inputs[0], 1, name);
  if (!mask) return std::nullopt;
  if (heads.found.mask != kNoValue || heads.found.condition != kNoValue) {
    node.inputs.insert(node.inputs.end(), {ValueRef::None(), ValueRef::None(), *mask});
  }
  node.name_hint = name + "_attention";
  node.attributes.Set("num_heads", q[2].value);
  node.attributes.Set("scale", static_cast<float>(heads.found.scale));
  const ValueRef y = edit.AddNode(std::move(node), graph.value(heads.inputs[0]).dtype,
                                  Shape{q[0], q[1], {v[2].value * v[3].value, ""}});
  const std::vector<int64_t> dims = {0, 0, v[2].value, v[3].value};
  const ValueRef wanted = edit.AddConstant(name + "_shape", Tensor::Of<int64_t>({4}, dims));
  edit.ReplaceNode(heads.last, NewNodeOf("", "Reshape", {y, wanted}));
  return edit;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const auto heads = FindHeads(context, root);
  if (!heads) return std::nullopt;
  if (!context.MayMake("com.microsoft", "MultiHeadAttention")) {
    return context.Miss("the target has no com.microsoft MultiHeadAttention");
  }
  if (const auto unproven = UnprovenShapes(graph, heads->found)) return context.Miss("{}", *unproven);
  if (const auto unproven = UnprovenMask(graph, heads->found, LengthsOf(graph, heads->found))) {
    return context.Miss("{}", *unproven);
  }
  for (ValueId v : heads->inputs) {
    const auto& shape = graph.value(v).shape;
    if (!shape || shape->size() != 4 || (*shape)[2].value <= 0 || (*shape)[3].value <= 0) {
      return context.Miss("the number and size of heads are not known");
    }
  }
  if (heads->found.mask != kNoValue && RankOf(graph, heads->found.mask) != 4) {
    return context.Miss("the mask has not four axes");
  }
  if (graph.node(heads->last).region != graph.node(root).region) return std::nullopt;
  if (!MayFuse(context, heads->found, root)) return std::nullopt;
  return Rewrite(context, *heads);
}

}  // namespace

const Pass& FuseMultiHeadAttentionPass() {
  static const Pass pass = {.name = "fuse-multi-head-attention",
                            .summary =
                                "Attention between the transposes of its heads becomes com.microsoft "
                                "MultiHeadAttention",
                            .roots = {"MatMul"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
