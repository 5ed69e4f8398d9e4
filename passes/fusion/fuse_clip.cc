// A minimum and a maximum with constants become one Clip, which other fusions know.
//
//   x ─ Max(low) ─ Min(high) ─ y        =>        x ─ Clip(low, high) ─ y
//
// In either order, low no greater than high: scalars, or constants of one element that don't change x's shape. From
// opset 11 on, where Clip's bounds are inputs; x is float16, float32 or float64 (any of them keeps NaN). Nothing else
// reads what lies between.
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

// A Min's or Max's input beside a constant of one element.
struct Bounded {
  ValueId x = kNoValue, bound = kNoValue;
  double number = 0;
};

std::optional<Bounded> ReadBound(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  const auto split = SplitConstant(graph, node);
  if (!split) return std::nullopt;
  const auto number = NumberBeside(graph, split->second, split->first);
  return number ? std::optional(Bounded{split->first, split->second, *number}) : std::nullopt;
}

// As Clip takes it: without axes.
ValueRef ScalarIn(const Graph& graph, GraphEdit& edit, ValueId bound) {
  const Tensor& constant = *ConstantOf(graph, bound);
  if (constant.dims().empty()) return ValueRef::Of(bound);
  return edit.AddConstant(graph.value(bound).name, constant.Reshaped({}));
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  constexpr int64_t kFirstWithInputs = 11;
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const bool ends_low = IsOp(node, "Max");
  if (!ends_low && !IsOp(node, "Min")) return std::nullopt;
  const auto outer = ReadBound(graph, node);
  const Node* before = outer ? MadeBy(graph, outer->x, ends_low ? "Min" : "Max") : nullptr;
  const auto inner = before != nullptr ? ReadBound(graph, *before) : std::nullopt;
  if (!inner) return std::nullopt;
  const Bounded &low = ends_low ? *outer : *inner, &high = ends_low ? *inner : *outer;
  if (!(low.number <= high.number)) return context.Miss("its lower bound is above the upper one");
  const DType dtype = graph.value(inner->x).dtype;
  if (dtype != DType::kFloat && dtype != DType::kFloat16 && dtype != DType::kDouble) {
    return context.Miss("{} is not handled", NameOf(dtype));
  }
  if (context.opset() < kFirstWithInputs) return context.Miss("Clip takes bounds as inputs from opset 11 on");
  if (!context.MayMake("", "Clip") || !context.target().Takes("", "Clip", dtype)) {
    return context.Miss("the target has no Clip of {}", NameOf(dtype));
  }
  if (const auto why = WhyNotFreed(graph, {ProducerOf(graph, outer->x), root}, root)) return context.Miss("{}", *why);
  GraphEdit edit(root);
  const ValueRef from = ScalarIn(graph, edit, low.bound), to = ScalarIn(graph, edit, high.bound);
  edit.ReplaceNode(root, NewNodeOf("", "Clip", {ValueRef::Of(inner->x), from, to}));
  return edit;
}

}  // namespace

const Pass& FuseClipPass() {
  static const Pass pass = {.name = "fuse-clip",
                            .summary = "A minimum and a maximum with constants become one Clip",
                            .roots = {"Min", "Max"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
