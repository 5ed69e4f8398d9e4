// What a model computes of shapes becomes a constant where the dimensions it asks for are known.
//
//   x[batch, 3, 224] ─ Shape ─ Gather(1) ─ Mul(64) ─ y        =>        Constant y = 192
//
// A value of integers or bools, a scalar or a vector, whose elements are all known: from dimensions that are numbers,
// even when others of the same shape are not, through Gather, Slice, Concat, arithmetic and their like
// (shape_values.h). Symbols may take part as long as they cancel out: Equal(batch, -1) is false.
#include <limits>

#include "libquant/model/dim_names.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/shape/shape_values.h"

namespace quant {
namespace {

template <typename T>
Tensor TensorOf(const ShapeValue& value, const std::vector<int64_t>& numbers) {
  Tensor out = Tensor::Allocate(DTypeOf<T>(), value.scalar ? Dims() : Dims{static_cast<int64_t>(numbers.size())});
  const auto to = out.mutable_data<T>();
  for (size_t i = 0; i < numbers.size(); ++i) to[i] = static_cast<T>(numbers[i]);
  return out;
}

Tensor TensorOf(const ShapeValue& value, const std::vector<int64_t>& numbers, DType dtype) {
  if (dtype == DType::kBool) return TensorOf<bool>(value, numbers);
  return dtype == DType::kInt32 ? TensorOf<int32_t>(value, numbers) : TensorOf<int64_t>(value, numbers);
}

std::optional<GraphEdit> MissOf(const PassContext& context, const Node& node) {
  const ValueId x = InputOf(node, 0);
  if (!IsOp(node, "Shape") || x == kNoValue) return std::nullopt;
  const Value& value = context.graph().value(x);
  if (!value.shape) return context.Miss("the rank of {} is not known", value.name);
  for (size_t i = 0; i < value.shape->size(); ++i) {
    const Dim& d = (*value.shape)[i];
    if (d.known()) continue;
    if (!HasMeaningfulName(d)) return context.Miss("dimension {} of {} is not known", i, value.name);
    return context.Miss("dimension {} of {} is no number but '{}'", i, value.name, d.symbol);
  }
  return std::nullopt;
}

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const ValueId y = OutputOf(node, 0);
  if (y == kNoValue || node.outputs.size() != 1) return std::nullopt;
  ShapeValues values(graph, context.opset());
  const ShapeValue* value = values.Of(y);
  const auto numbers = value == nullptr ? std::nullopt : value->Numbers();
  if (!numbers) return MissOf(context, node);
  if (IsRegionOutput(graph, y)) return context.Miss("it makes an output of the graph");
  GraphEdit edit(root);
  edit.Replace(y, edit.AddConstant(graph.value(y).name, TensorOf(*value, *numbers, graph.value(y).dtype)));
  edit.Remove(root);
  return edit;
}

}  // namespace

const Pass& FoldShapesPass() {
  static const Pass pass = {
      .name = "fold-shapes",
      .summary = "Shape, Size and what is computed of them become constants where the dimensions are known",
      .roots = {"Shape", "Size", "Gather", "Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Cast", "Add", "Sub",
                "Mul", "Div", "Equal", "Where", "ReduceProd"},
      .rule = Fold};
  return pass;
}

}  // namespace quant
