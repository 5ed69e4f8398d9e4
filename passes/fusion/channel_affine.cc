#include "passes/fusion/channel_affine.h"

#include <algorithm>
#include <cmath>

#include "libquant/ops/float_view.h"
#include "passes/match.h"

namespace quant {
namespace {

// The constant broadcasts over a value of these channels without changing its shape.
bool Fits(const Tensor& constant, const ChannelAxis& axis) {
  const Dims& dims = constant.dims();
  // Operands of one element and rank 0 fit anywhere.
  if (!axis.rank && !dims.empty() && constant.rank() > axis.from_end + (axis.extent_known ? 1 : 0)) return false;
  if (axis.rank && constant.rank() > *axis.rank) return false;
  for (int64_t i = 0; i < constant.rank(); ++i) {
    const int64_t dim = dims[static_cast<size_t>(constant.rank() - 1 - i)];
    if (dim == 1) continue;
    if (i != axis.from_end || dim != axis.channels || !axis.extent_known) return false;
  }
  return true;
}

// Values for each channel: one for all, or one each.
std::vector<double> Spread(const std::vector<double>& values, int64_t channels) {
  return values.size() == 1 ? std::vector<double>(static_cast<size_t>(channels), values[0]) : values;
}

std::vector<double> Mapped(std::vector<double> values, double (*f)(double)) {
  std::transform(values.begin(), values.end(), values.begin(), f);
  return values;
}

double Reciprocal(double v) { return 1 / v; }
double Negative(double v) { return -v; }

}  // namespace

bool ChannelAffine::Scales() const {
  return std::any_of(factor.begin(), factor.end(), [](double f) { return f != 1; });
}
bool ChannelAffine::Shifts() const {
  return std::any_of(shift.begin(), shift.end(), [](double s) { return s != 0; });
}

ChannelAxis AxisAfter(const LinearOp& op) { return {op.outputs, op.axis_from_end, op.rank, true}; }

ChannelAxis AxisBefore(const Graph& graph, const LinearOp& op, ValueId x) {
  ChannelAxis axis = {op.inputs, op.axis_from_end, RankOf(graph, x), false};
  if (!axis.rank || *axis.rank <= axis.from_end) return axis;
  const Shape& shape = *graph.value(x).shape;
  axis.extent_known = shape[static_cast<size_t>(*axis.rank - 1 - axis.from_end)].value == axis.channels;
  return axis;
}

std::optional<std::vector<double>> DoublesOf(const Tensor& tensor) {
  const auto owned = tensor.Materialize();
  if (!owned.ok()) return std::nullopt;
  std::vector<double> out(static_cast<size_t>(owned->size()));
  if (!ConvertFloats(*owned, out.data()).ok()) return std::nullopt;
  return out;
}

std::optional<std::vector<double>> DoublesOf(const Graph& graph, ValueId value) {
  const Tensor* constant = ConstantOf(graph, value);
  return constant == nullptr ? std::nullopt : DoublesOf(*constant);
}

ValueId VariableOperand(const Graph& graph, const Node& node) {
  const auto split = SplitConstant(graph, node);
  return split && split->first != kNoValue ? split->first : kNoValue;
}

std::optional<ChannelAffine> AffineOf(const PassContext& context, NodeId id, ValueId x, const ChannelAxis& axis) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(id);
  const bool mul = IsOp(node, "Mul"), div = IsOp(node, "Div"), add = IsOp(node, "Add"), sub = IsOp(node, "Sub");
  if (!(mul || div || add || sub) || node.inputs.size() != 2) return std::nullopt;
  const bool x_first = node.inputs[0] == x;
  const ValueId operand = node.inputs[x_first ? 1 : 0];
  const Tensor* constant = ConstantOf(graph, operand);
  if (constant == nullptr) return std::nullopt;
  if (div && !x_first) return context.Miss("{} divides by what it is given", graph.NodeLabel(id));
  if (!Fits(*constant, axis)) {
    return context.Miss("the constant of {}, {}, is not known to be one value or one for each of {} channels",
                        graph.NodeLabel(id), Describe(*constant), axis.channels);
  }
  const auto values = DoublesOf(graph, operand);
  if (!values) return context.Miss("the constant of {} can't be read", graph.NodeLabel(id));
  ChannelAffine out;
  std::vector<double> spread = Spread(*values, axis.channels);
  if (mul || div) {
    out.factor = div ? Mapped(std::move(spread), Reciprocal) : std::move(spread);
    out.shift.assign(out.factor.size(), 0);
    return out;
  }
  out.shift_value = operand;
  out.factor.assign(spread.size(), sub && !x_first ? -1 : 1);
  out.shift = sub && x_first ? Mapped(std::move(spread), Negative) : std::move(spread);
  return out;
}

std::optional<ChannelAffine> BatchNormAffine(const PassContext& context, NodeId id, int64_t channels) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(id);
  const Attributes& a = node.attributes;
  const std::string label = graph.NodeLabel(id);
  if (node.inputs.size() != 5 || context.opset() < 7) return context.Miss("{} is of an opset before 7", label);
  if (HasReferences(node)) return context.Miss("{} takes attributes from the function it is in", label);
  const bool more = std::any_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId v) { return v != kNoValue; });
  if (more || a.Int("training_mode", 0) != 0) return context.Miss("{} is in training mode", label);
  if (a.Int("spatial", 1) == 0) return context.Miss("{} has statistics for each element (spatial = 0)", label);
  std::vector<std::vector<double>> parts;  // scale, bias, mean, variance
  for (size_t i = 1; i < 5; ++i) {
    auto values = DoublesOf(graph, node.inputs[i]);
    if (!values) return context.Miss("input {} of {} is not constant", i, label);
    if (static_cast<int64_t>(values->size()) != channels) {
      return context.Miss("{} has {} channels where {} are needed", label, values->size(), channels);
    }
    parts.push_back(*std::move(values));
  }
  const double epsilon = a.Float("epsilon", 1e-5F);
  ChannelAffine out;
  out.shift_value = node.inputs[2];
  for (size_t c = 0; c < parts[0].size(); ++c) {
    const double factor = parts[0][c] / std::sqrt(parts[3][c] + epsilon);
    out.factor.push_back(factor);
    out.shift.push_back(parts[1][c] - parts[2][c] * factor);
  }
  return out;
}

}  // namespace quant
