#include "passes/shape/infer_anew.h"

#include <utility>

#include "libquant/model/check.h"
#include "libquant/model/dim_names.h"
#include "passes/match.h"

namespace quant {
namespace {

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
  return OkStatus();
}

}  // namespace quant
