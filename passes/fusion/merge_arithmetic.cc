// Two constants that one value is multiplied by, or that are added to it, one after the other, become one.
//
//   x ─ Mul(a) ─ Mul(b) ─ z      =>      x ─ Mul(a * b) ─ z
//   x ─ Div(a) ─ Mul(b) ─ z      =>      x ─ Mul(b / a) ─ z         Div, Mul: a / b;   Div, Div: Div(a * b)
//   x ─ Add(a) ─ Add(b) ─ z      =>      x ─ Add(a + b) ─ z         and so with Sub
//
// Only the second node reads what the first one gives, and the constant is no larger than the larger of the two. Where
// a product would leave the type's normal numbers, or a sum of opposite signs would lose more than a bit, both stay:
// such pairs are often meant to round or to keep a product in range.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "libquant/ops/evaluate.h"
#include "libquant/ops/find_kernel.h"
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

// A node of two operands of which one is constant: op(x, constant), or op(constant, x) when `reversed`.
struct Step {
  std::string_view op;
  ValueId x = kNoValue, constant = kNoValue;
  bool reversed = false;
  bool multiplies() const { return op == "Mul" || op == "Div"; }
};

std::optional<Step> StepOf(const Graph& graph, const Node& node) {
  for (const std::string_view op : {"Mul", "Div", "Add", "Sub"}) {
    if (!IsOp(node, op)) continue;
    const auto split = SplitConstant(graph, node);
    if (!split || split->first == kNoValue || split->second == kNoValue) return std::nullopt;
    const bool swaps = op == "Div" || op == "Sub";
    return Step{op, split->first, split->second, swaps && node.inputs[0] == split->second};
  }
  return std::nullopt;
}

// What the two steps are together: op(x, left `combine` right).
struct Merged {
  std::string_view op, combine;
  ValueId left = kNoValue, right = kNoValue;
};

// Neither is reversed.
Merged Merge(const Step& first, const Step& second) {
  const ValueId a = first.constant, b = second.constant;
  const bool same = first.op == second.op;
  if (first.multiplies()) {
    if (same) return {first.op, "Mul", a, b};
    return first.op == "Mul" ? Merged{"Mul", "Div", a, b} : Merged{"Mul", "Div", b, a};
  }
  if (same) return {first.op, "Add", a, b};
  return first.op == "Add" ? Merged{"Add", "Sub", a, b} : Merged{"Add", "Sub", b, a};
}

double SmallestNormal(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 6.103515625e-05;
    case DType::kDouble:
      return std::numeric_limits<double>::min();
    default:
      return double{std::numeric_limits<float>::min()};
  }
}

std::optional<Tensor> Evaluated(const PassContext& context, std::string_view op_type, const Tensor& a,
                                const Tensor& b) {
  const OpDef* op = FindKernel("", op_type, context.opset());
  if (op == nullptr) return std::nullopt;
  const Tensor* inputs[] = {&a, &b};
  auto made = EvaluateOp(*op, {}, context.opset(), inputs, 1);
  if (!made.ok()) return std::nullopt;
  return (*made)[0];
}

std::optional<Tensor> Absolute(const Tensor& tensor) {
  auto values = DoublesOf(tensor);
  if (!values) return std::nullopt;
  for (double& v : *values) v = std::abs(v);
  return RoundedTensor(DType::kDouble, tensor.dims(), *values);
}

// Each sum is at least half of |a| + |b|.
bool KeepsDigits(const PassContext& context, const Tensor& a, const Tensor& b, const std::vector<double>& sums) {
  const auto x = Absolute(a), y = Absolute(b);
  const auto bound = x && y ? Evaluated(context, "Add", *x, *y) : std::nullopt;
  if (!bound) return false;
  const auto most = bound->data<double>();
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!(std::abs(sums[i]) >= most[i] / 2)) return false;
  }
  return true;
}

std::optional<Tensor> Combined(const PassContext& context, const Merged& merged, bool multiplies) {
  const Graph& graph = context.graph();
  const auto a = ConstantOf(graph, merged.left)->Materialize(), b = ConstantOf(graph, merged.right)->Materialize();
  if (!a.ok() || !b.ok()) return context.Miss("its constants can't be read");
  auto made = Evaluated(context, merged.combine, *a, *b);
  const auto values = made ? DoublesOf(*made) : std::nullopt;
  if (!values) return context.Miss("its constants can't be combined");
  if (made->size() > std::max(a->size(), b->size())) return context.Miss("the constant of both would be larger");
  if (!multiplies) {
    if (!KeepsDigits(context, *a, *b, *values)) return context.Miss("the constants nearly cancel each other");
    return made;
  }
  const double least = SmallestNormal(made->dtype());
  const bool normal =
      std::all_of(values->begin(), values->end(), [&](double v) { return std::isfinite(v) && std::abs(v) >= least; });
  if (!normal) return context.Miss("the constant of both would not be a normal number");
  return made;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const auto second = StepOf(graph, graph.node(root));
  if (!second || context.opset() < 7) return std::nullopt;
  const NodeId before = ProducerOf(graph, second->x);
  const auto first = before == kNoNode ? std::nullopt : StepOf(graph, graph.node(before));
  if (!first || first->multiplies() != second->multiplies()) return std::nullopt;
  if (!InfoOf(graph.value(second->constant).dtype).is_float) return std::nullopt;
  if (!HasOneReader(graph, second->x)) {
    return context.Miss("what {} gives is read by others too", graph.NodeLabel(before));
  }
  if (first->reversed || second->reversed) return context.Miss("one of the two takes from a constant, or divides it");
  const Merged merged = Merge(*first, *second);
  auto constant = Combined(context, merged, second->multiplies());
  if (!constant) return std::nullopt;
  GraphEdit edit(root);
  const ValueRef made = PutConstant(graph, edit, second->constant, *std::move(constant));
  edit.ReplaceNode(root, {.name_hint = "",
                          .op_type = std::string(merged.op),
                          .domain = "",
                          .inputs = {ValueRef::Of(first->x), made},
                          .outputs = {},
                          .attributes = {}});
  return edit;
}

}  // namespace

const Pass& MergeArithmeticPass() {
  static const Pass pass = {
      .name = "merge-arithmetic",
      .summary = "Constants that a value is multiplied by, or that are added to it, in turn become one",
      .roots = {"Mul", "Div", "Add", "Sub"},
      .rule = Fuse};
  return pass;
}

}  // namespace quant
