// Softmax as the operators that it is made of (decomposed_softmax.h) becomes one.
//
//   x ─┬─ ReduceMax ─┐
//      └──────────── Sub ─ Exp ─┬─ ReduceSum ─┐
//                               └──────────── Div ─ y        =>        x ─ Softmax ─ y
//
// So does the form that raising a Softmax from before opset 13 gives, when its axis is the last one:
//
//   x ─┬─ Flatten ─ Softmax ─┐
//      └─ Shape ──────────── Reshape ─ y        =>        x ─ Softmax ─ y
//
// The sum is over one axis, which before opset 13 is the last one, and keeps its rank; so is the maximum, if one is
// taken away (what else is taken away stays). Nothing else reads what lies between. float32 and float16.
#include "passes/decomposed_softmax.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

// The one axis that the node reduces and keeps, counted from the front.
std::optional<int64_t> AxisOf(const Graph& graph, NodeId reduction, int64_t rank) {
  const Node& node = graph.node(reduction);
  const auto axes = IntsOf(graph, node, "axes", 1);
  if (HasReferences(node) || !axes || axes->size() != 1 || node.attributes.Int("keepdims", 1) == 0) return std::nullopt;
  return axes->front() < 0 ? axes->front() + rank : axes->front();
}

GraphEdit SoftmaxAt(NodeId root, ValueId x, int64_t axis) {
  GraphEdit edit(root);
  GraphEdit::NewNode node = NewNodeOf("", "Softmax", {ValueRef::Of(x)});
  node.attributes.Set("axis", axis);
  edit.ReplaceNode(root, std::move(node));
  return edit;
}

std::optional<GraphEdit> FuseFlattened(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& reshape = graph.node(root);
  const Node* softmax = MadeBy(graph, InputOf(reshape, 0), "Softmax");
  const Node* flatten = softmax != nullptr ? MadeBy(graph, InputOf(*softmax, 0), "Flatten") : nullptr;
  const Node* shape = MadeBy(graph, InputOf(reshape, 1), "Shape");
  if (flatten == nullptr || shape == nullptr || InputOf(*shape, 0) != InputOf(*flatten, 0)) return std::nullopt;
  for (const Node* node : {&reshape, softmax, flatten, shape}) {
    if (HasReferences(*node) || node->region != reshape.region) return std::nullopt;
  }
  if (shape->attributes.Has("start") || shape->attributes.Has("end")) return std::nullopt;
  const ValueId x = flatten->inputs[0];
  const auto rank = RankOf(graph, x);
  const int64_t split = flatten->attributes.Int("axis", 1);
  if (!rank) return context.Miss("the rank of what is flattened is not known");
  if (split != *rank - 1 && split != -1) return context.Miss("it sums over more than the last axis");
  const int64_t axis = softmax->attributes.Int("axis", context.opset() < 13 ? 1 : -1);
  if (axis != 1 && axis != -1) return std::nullopt;
  if (!HasOneReader(graph, InputOf(reshape, 0)) || !HasOneReader(graph, InputOf(*softmax, 0))) {
    return context.Miss("what is flattened, or its Softmax, has another reader");
  }
  return SoftmaxAt(root, x, *rank - 1);
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  if (IsOp(graph.node(root), "Reshape")) return FuseFlattened(context, root);
  auto softmax = MatchDecomposedSoftmax(graph, root);
  if (!softmax) return std::nullopt;
  if (softmax->casts) return context.Miss("it changes its type on the way");
  ValueId x = softmax->x;
  const auto rank = RankOf(graph, x);
  if (!rank) return context.Miss("the rank of what it normalises is not known");
  const auto axis = AxisOf(graph, softmax->sum, *rank);
  if (!axis) return context.Miss("its sum is not over one axis that is kept");
  if (context.opset() < 13 && *axis != *rank - 1) {
    return context.Miss("before opset 13 Softmax sums over all axes from one on; this is not the last one");
  }
  const DType dtype = graph.value(x).dtype;
  if (dtype != DType::kFloat && dtype != DType::kFloat16) return context.Miss("{} is not handled", NameOf(dtype));
  if (!context.MayMake("", "Softmax")) return context.Miss("the target has no Softmax");
  std::vector<NodeId> parts = softmax->parts;
  if (softmax->max != kNoNode) {
    const Node &difference = graph.node(softmax->difference), &max = graph.node(softmax->max);
    const ValueId before = InputOf(difference, 0);
    const bool direct = ProducerOf(graph, x) == softmax->difference && InputOf(difference, 1) == OutputOf(max, 0);
    if (direct && InputOf(max, 0) == before && AxisOf(graph, softmax->max, *rank) == axis) {
      x = before;
      parts.insert(parts.end(), {softmax->difference, softmax->max});
    }
  }
  if (const auto why = WhyNotFreed(graph, parts, root)) return context.Miss("{}", *why);
  return SoftmaxAt(root, x, *axis);
}

}  // namespace

const Pass& FuseSoftmaxPass() {
  static const Pass pass = {.name = "fuse-softmax",
                            .summary = "Exponentials over their sum become Softmax",
                            .roots = {"Div", "Mul", "Reshape"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
