#include "passes/shape/infer_anew.h"

#include <utility>
#include <vector>

#include "libquant/model/check.h"
#include "libquant/model/dim_names.h"
#include "passes/match.h"
#include "passes/shape/shape_values.h"

namespace quant {
namespace {

// Each round gives shapes to what lies behind Reshapes whose targets depend on shapes found in the round before.
constexpr int kReshapeRounds = 8;

// Gives the results of Reshapes the dimensions that are known of their computed targets, where inference knows nothing.
// Whether any got one. A name is given where a 0, which Reshape takes for "copy", would copy the same dimension.
bool ShapeReshapes(Model& model) {
  Graph& graph = model.graph;
  ShapeValues values(graph, model.OpsetOf(""));
  std::vector<std::pair<ValueId, Shape>> found;
  for (NodeId n : graph.AllNodes()) {
    const Node& node = graph.node(n);
    if (!IsOp(node, "Reshape") || OutputOf(node, 0) == kNoValue || graph.value(node.outputs[0]).shape) continue;
    const ShapeValue* target = values.Of(InputOf(node, 1));
    if (target == nullptr || target->scalar) continue;
    const bool zero_is_zero = node.attributes.Int("allowzero", 0) != 0;
    Shape shape(target->elements.size());
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!target->elements[i]) continue;
      const auto number = target->elements[i]->number();
      if (number && *number > 0) shape[i].value = *number;  // 0 may copy, -1 is what is left
      const auto symbol = target->elements[i]->symbol();
      const bool same_if_zero = zero_is_zero || values.DimOf(node.inputs[0], i) == target->elements[i];
      if (symbol && (*symbol)[0] != '\x01' && same_if_zero) shape[i].symbol = *symbol;
    }
    found.emplace_back(node.outputs[0], std::move(shape));
  }
  for (auto& [value, shape] : found) graph.value(value).shape = std::move(shape);
  return !found.empty();
}

// What of `before` is more than is known now. Whether there was any.
bool TakeBack(Graph& graph, const NodeShapes& before) {
  bool taken = false;
  for (const auto& [v, shape] : before) {
    std::optional<Shape>& now = graph.value(v).shape;
    if (!now) now = Shape(shape.size()), taken = true;
    if (now->size() != shape.size()) continue;
    for (size_t i = 0; i < shape.size(); ++i) {
      Dim& dim = (*now)[i];
      const bool better = shape[i].known() || (HasMeaningfulName(shape[i]) && !HasMeaningfulName(dim));
      if (dim.known() || !better) continue;
      dim = shape[i];
      taken = true;
    }
  }
  return taken;
}

}  // namespace

NodeShapes ForgetShapes(Graph& graph, bool keep_outputs) {
  NodeShapes out;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    Value& value = graph.value(v);
    if (value.removed || value.producer == kNoNode || value.constant || !value.shape) continue;
    if (keep_outputs && value.region == kMainRegion && IsRegionOutput(graph, v)) continue;
    out.emplace(v, *std::exchange(value.shape, std::nullopt));
  }
  return out;
}

Status InferAnew(Model& model) {
  const NodeShapes before = ForgetShapes(model.graph, true);
  RETURN_IF_ERROR(InferShapes(model));
  if (TakeBack(model.graph, before)) RETURN_IF_ERROR(InferShapes(model));
  for (int round = 0; round < kReshapeRounds && ShapeReshapes(model); ++round) RETURN_IF_ERROR(InferShapes(model));
  return OkStatus();
}

}  // namespace quant
