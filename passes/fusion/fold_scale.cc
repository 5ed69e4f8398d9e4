// A constant by which a linear operator's result, or its input, is multiplied or divided goes into its weight.
//
//   x ─ Conv(w, b) ─ Mul(c) ─ z            =>      x ─ Conv(w * c, b * c) ─ z
//   x ─ Mul(c) ─ Conv(w, b) ─ z            =>      x ─ Conv(w * c, b) ─ z
//   x ─ Mul(c) ─ Add(d) ─ Conv(w, b) ─ z   =>      x ─ Add(d / c) ─ Conv(w * c, b) ─ z
//
// For Conv, ConvTranspose, Gemm and MatMul. The constants have one value or one for each channel and don't change the
// shape; weight and bias are constant, nobody else reads the weight or the values in between.
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

// x * c + d as (x + d / c) * c: d / c in dims that broadcast over x, where the channels lie along `axis`.
std::optional<Tensor> Unscaled(const Tensor& d, const ChannelAffine& scale, const ChannelAffine& sum,
                               const ChannelAxis& axis) {
  std::vector<double> values;
  bool same = true;
  for (size_t i = 0; i < sum.shift.size(); ++i) {
    values.push_back(sum.shift[i] / scale.factor[i]);
    same = same && values[i] == values[0];
  }
  if (same && d.size() == 1) return RoundedTensor(d.dtype(), d.dims(), {values[0]});
  Dims dims(static_cast<size_t>(axis.from_end + 1), 1);
  dims[0] = axis.channels;
  return RoundedTensor(d.dtype(), std::move(dims), values);
}

std::optional<GraphEdit> FoldThroughSum(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const NodeId add = ProducerOf(graph, InputOf(graph.node(root), 0));
  if (add == kNoNode) return std::nullopt;
  const Node& sum = graph.node(add);
  const ValueId product = VariableOperand(graph, sum);
  if (product == kNoValue || !(IsOp(sum, "Add") || (IsOp(sum, "Sub") && sum.inputs[0] == product))) return std::nullopt;
  const NodeId mul = ProducerOf(graph, product);
  if (mul == kNoNode || !(IsOp(graph.node(mul), "Mul") || IsOp(graph.node(mul), "Div"))) return std::nullopt;
  const ValueId x = VariableOperand(graph, graph.node(mul));
  if (x == kNoValue) return std::nullopt;
  const auto op = LinearAt(context, root);
  if (!op) return std::nullopt;
  if (!HasOneReader(graph, product)) return context.Miss("what {} gives is read by others too", graph.NodeLabel(mul));
  const ChannelAxis axis = AxisBefore(graph, *op, x);
  const auto scale = AffineOf(context, mul, x, axis);
  const auto shift = scale ? AffineOf(context, add, product, AxisBefore(graph, *op, product)) : std::nullopt;
  if (!shift) return std::nullopt;
  auto unscaled = Unscaled(*ConstantOf(graph, shift->shift_value), *scale, *shift, axis);
  if (!unscaled) return context.Miss("what {} adds, over the factor, would not be finite", graph.NodeLabel(add));
  GraphEdit edit(root);
  const ValueRef added = PutConstant(graph, edit, shift->shift_value, *std::move(unscaled));
  const Value& before = graph.value(sum.outputs[0]);
  const ValueRef made = edit.AddNode({.name_hint = sum.name,
                                      .op_type = "Add",
                                      .domain = "",
                                      .inputs = {ValueRef::Of(x), added},
                                      .outputs = {},
                                      .attributes = {}},
                                     before.dtype, before.shape);
  return FoldBefore(context, *op, add, made, *scale, std::move(edit));
}

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  if (auto edit = FoldElementwise(context, root, {"Mul", "Div"})) return edit;
  const Node& node = context.graph().node(root);
  return IsOp(node, "Mul") || IsOp(node, "Div") ? std::nullopt : FoldThroughSum(context, root);
}

}  // namespace

const Pass& FoldScalePass() {
  static const Pass pass = {
      .name = "fold-scale",
      .summary = "A constant factor before or after a Conv, ConvTranspose, Gemm or MatMul goes into its weight",
      .roots = {"Mul", "Div", "Conv", "ConvTranspose", "Gemm", "MatMul"},
      .rule = Fold};
  return pass;
}

}  // namespace quant
