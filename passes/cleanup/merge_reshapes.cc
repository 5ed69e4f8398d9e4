// Of Reshape, Flatten, Squeeze and Unsqueeze in a row the last alone says what shape comes out.
//
//   x ─ Unsqueeze a ─ Squeeze a ─ y                  =>        x
//   x ─ Unsqueeze a ─ Unsqueeze b ─ y                =>        x ─ Unsqueeze c ─ y      (so too Squeeze)
//   x ─ any of them ─ Reshape to [2, -1] ─ y         =>        x ─ Reshape to [2, -1] ─ y
//   x ─ any of them ─ any of them ─ y                =>        x ─ Reshape to y's dims ─ y
//
// Axes are constants. A Reshape is to a constant shape in which no 0 copies a dimension of what goes. In the last case
// all of y's dims are known and not 0, or all but one. The first node stays for its other readers.
#include <algorithm>

#include "passes/cleanup/return_input.h"
#include "passes/match.h"

namespace quant {
namespace {

constexpr int64_t kFirstWithShapeInput = 5, kFirstWithAxesInput = 13;

bool IsReshaper(const Node& node) {
  constexpr std::string_view kAll[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
  return std::any_of(std::begin(kAll), std::end(kAll), [&](std::string_view op) { return IsOp(node, op); });
}

// Axes of a Squeeze or an Unsqueeze, none negative, ascending. They count dims of the longer of the node's two shapes.
std::optional<std::vector<int64_t>> AxesOf(const Graph& graph, const Node& node) {
  auto axes = IntsOf(graph, node, "axes", 1);
  if (!axes || axes->empty()) return std::nullopt;
  const auto rank = RankOf(graph, InputOf(node, 0));
  for (int64_t& axis : *axes) {
    if (axis >= 0) continue;
    if (!rank) return std::nullopt;
    axis += *rank + (node.op_type == "Unsqueeze" ? static_cast<int64_t>(axes->size()) : 0);
  }
  std::sort(axes->begin(), axes->end());
  return axes;
}

// `inner` counts the places that are not among `outer`: both, counted alike.
std::vector<int64_t> UnionOf(const std::vector<int64_t>& outer, const std::vector<int64_t>& inner) {
  std::vector<int64_t> out = outer;
  int64_t place = 0, free_place = 0;
  for (int64_t axis : inner) {
    const auto taken = [&] { return std::binary_search(outer.begin(), outer.end(), place); };
    while (taken() || free_place < axis) {
      free_place += taken() ? 0 : 1;
      ++place;
    }
    out.push_back(place);
  }
  std::sort(out.begin(), out.end());
  return out;
}

GraphEdit::NewNode Successor(const Node& of, std::string op_type, ValueId x) {
  return {of.name, std::move(op_type), of.domain, {ValueRef::Of(x)}, {}, {}};
}

Tensor IntsTensor(const std::vector<int64_t>& ints) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(ints.size())}, ints);
}

GraphEdit WithAxes(const PassContext& context, NodeId root, ValueId x, std::vector<int64_t> axes) {
  const Node& node = context.graph().node(root);
  GraphEdit edit(root);
  GraphEdit::NewNode merged = Successor(node, node.op_type, x);
  if (context.opset() >= kFirstWithAxesInput) {
    merged.inputs.push_back(edit.AddConstant(context.graph().NodeLabel(root) + ".axes", IntsTensor(axes)));
  } else {
    merged.attributes.Set("axes", std::move(axes));
  }
  edit.ReplaceNode(root, std::move(merged));
  return edit;
}

// Two that insert or remove axes.
std::optional<GraphEdit> MergeAxes(const PassContext& context, const Node& first, NodeId root) {
  const Graph& graph = context.graph();
  const Node& second = graph.node(root);
  if (!first.op_type.ends_with("queeze") || !second.op_type.ends_with("queeze")) return std::nullopt;
  const auto a = AxesOf(graph, first), b = AxesOf(graph, second);
  if (!a || !b) return std::nullopt;
  const ValueId x = InputOf(first, 0);
  if (first.op_type != second.op_type) {
    return *a == *b ? ReturnInput(context, root, x) : std::nullopt;
  }
  return WithAxes(context, root, x, first.op_type == "Unsqueeze" ? UnionOf(*b, *a) : UnionOf(*a, *b));
}

// The shape with which a Reshape makes the value of any other with as many elements; nullopt when it is not known.
std::optional<std::vector<int64_t>> TargetOf(const Graph& graph, ValueId value) {
  const auto& shape = graph.value(value).shape;
  if (!shape) return std::nullopt;
  std::vector<int64_t> out;
  int open = 0;
  for (const Dim& dim : *shape) {
    if (dim.known() && dim.value == 0) return std::nullopt;
    open += dim.known() ? 0 : 1;
    out.push_back(dim.known() ? dim.value : -1);
  }
  return open <= 1 ? std::optional(out) : std::nullopt;
}

// Says the shape that comes out without a look at what goes in.
bool SaysItsShape(const Graph& graph, const Node& node) {
  if (!IsOp(node, "Reshape")) return false;
  const auto shape = IntsOf(graph, node, "shape", 1);
  return shape && std::find(shape->begin(), shape->end(), 0) == shape->end();
}

std::optional<GraphEdit> Merge(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& second = graph.node(root);
  const NodeId producer = ProducerOf(graph, InputOf(second, 0));
  if (!IsReshaper(second) || producer == kNoNode || context.opset() < kFirstWithShapeInput) return std::nullopt;
  const Node& first = graph.node(producer);
  if (!IsReshaper(first) || HasReferences(first) || HasReferences(second)) return std::nullopt;
  const ValueId x = InputOf(first, 0), y = OutputOf(second, 0);
  if (auto edit = MergeAxes(context, first, root)) return edit;
  GraphEdit edit(root);
  if (SaysItsShape(graph, second)) {
    edit.SetInput(root, 0, ValueRef::Of(x));
    return edit;
  }
  const auto target = TargetOf(graph, y);
  if (!target) return context.Miss("more than one of its dimensions is not known");
  GraphEdit::NewNode merged = Successor(second, "Reshape", x);
  merged.inputs.push_back(edit.AddConstant(graph.NodeLabel(root) + ".shape", IntsTensor(*target)));
  edit.ReplaceNode(root, std::move(merged));
  return edit;
}

}  // namespace

const Pass& MergeReshapesPass() {
  static const Pass pass = {.name = "merge-reshapes",
                            .summary = "Of Reshape, Flatten, Squeeze and Unsqueeze in a row one remains, or none",
                            .roots = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"},
                            .rule = Merge};
  return pass;
}

}  // namespace quant
