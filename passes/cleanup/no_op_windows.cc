// When windows hold one element each, and when reductions have nothing to reduce.
#include <algorithm>

#include "passes/cleanup/no_ops.h"
#include "passes/match.h"

namespace quant {
namespace {

bool All(const std::vector<int64_t>& values, int64_t number) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == number; });
}

// The mean or the greatest of one element is that element. With auto_pad such a window pads nothing.
ValueId Pool(const PassContext& /*context*/, const Node& node) {
  const auto kernel = node.attributes.Ints("kernel_shape");
  const bool one = !kernel.empty() && All(kernel, 1) && All(node.attributes.Ints("strides"), 1) &&
                   All(node.attributes.Ints("pads"), 0);
  return one ? node.inputs[0] : kNoValue;
}

ValueId GlobalPool(const PassContext& context, const Node& node) {
  const auto& shape = context.graph().value(node.inputs[0]).shape;
  if (!shape || shape->size() < 3) return kNoValue;
  const bool one = std::all_of(shape->begin() + 2, shape->end(), [](const Dim& d) { return d.value == 1; });
  return one ? node.inputs[0] : kNoValue;
}

ValueId Reduce(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const ValueId x = node.inputs[0];
  const auto axes = IntsOf(graph, node, "axes", 1);
  const auto& shape = graph.value(x).shape;
  if (!axes) return kNoValue;
  if (axes->empty() && node.attributes.Int("noop_with_empty_axes", 0) != 0) return x;
  if (!shape || node.attributes.Int("keepdims", 1) == 0) return kNoValue;
  const auto rank = static_cast<int64_t>(shape->size());
  const auto is_one = [&](int64_t axis) {
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank && (*shape)[static_cast<size_t>(axis)].value == 1;
  };
  if (!axes->empty()) return std::all_of(axes->begin(), axes->end(), is_one) ? x : kNoValue;
  return std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.value == 1; }) ? x : kNoValue;
}

}  // namespace

std::span<const NoOp> WindowNoOps() {
  static constexpr NoOp kAll[] = {
      {"AveragePool", Pool},         {"MaxPool", Pool},      {"GlobalAveragePool", GlobalPool},
      {"GlobalMaxPool", GlobalPool}, {"ReduceMax", Reduce},  {"ReduceMean", Reduce},
      {"ReduceMin", Reduce},         {"ReduceProd", Reduce}, {"ReduceSum", Reduce}};
  return kAll;
}

}  // namespace quant
