// When operators that move or copy elements leave everything where it is.
#include <algorithm>
#include <cstdint>

#include "passes/cleanup/no_ops.h"
#include "passes/match.h"

namespace quant {
namespace {

// Exporters write these for "to the end" of a dimension that they don't know.
constexpr int64_t kToTheEnd = INT32_MAX;

bool SameKnownDims(const Graph& graph, ValueId x, ValueId y) {
  const auto from = DimsOf(graph, x), to = DimsOf(graph, y);
  return from && to && *from == *to;
}

// `shape` is made by Shape of all of x.
bool IsShapeOf(const Graph& graph, ValueId shape, ValueId x) {
  const Node* node = MadeBy(graph, shape, "Shape");
  return node != nullptr && InputOf(*node, 0) == x && !node->attributes.Has("start") && !node->attributes.Has("end");
}

ValueId If(bool returned, const Node& node) { return returned ? node.inputs[0] : kNoValue; }

ValueId Cast(const PassContext& context, const Node& node) {
  const DType from = context.graph().value(node.inputs[0]).dtype;
  const DType to = DTypeFromNumber(static_cast<int32_t>(node.attributes.Int("to", 0)));
  return If(from != DType::kUndefined && from == to, node);
}

ValueId CastLike(const PassContext& context, const Node& node) {
  const ValueId like = InputOf(node, 1);
  const DType from = context.graph().value(node.inputs[0]).dtype;
  return If(like != kNoValue && from != DType::kUndefined && from == context.graph().value(like).dtype, node);
}

// All dims are equal when all but one are, and none of those is 0: the number of elements stays.
ValueId Reshape(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const ValueId x = node.inputs[0], y = OutputOf(node, 0);
  if (SameKnownDims(graph, x, y) || IsShapeOf(graph, InputOf(node, 1), x)) return x;
  const auto &from = graph.value(x).shape, &to = graph.value(y).shape;
  if (!from || !to || from->size() != to->size()) return kNoValue;
  const auto target = IntsOf(graph, node, "shape", 1);
  const bool zero_copies = node.attributes.Int("allowzero", 0) == 0;
  int open = 0;
  for (size_t i = 0; i < from->size(); ++i) {
    const Dim &a = (*from)[i], &b = (*to)[i];
    const bool copied = target && zero_copies && i < target->size() && (*target)[i] == 0;
    if (copied || (a.known() && b.known() && a.value == b.value && a.value > 0)) continue;
    if (a.known() && b.known()) return kNoValue;
    ++open;
  }
  return If(open <= 1, node);
}

// Flatten, Squeeze and Unsqueeze keep the order of elements.
ValueId Flatten(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const int64_t axis = node.attributes.Int("axis", 1);
  const bool matrix = RankOf(graph, node.inputs[0]) == 2 && (axis == 1 || axis == -1);
  return If(matrix || SameKnownDims(graph, node.inputs[0], OutputOf(node, 0)), node);
}
ValueId Squeeze(const PassContext& context, const Node& node) {
  return If(SameKnownDims(context.graph(), node.inputs[0], OutputOf(node, 0)), node);
}
ValueId Unsqueeze(const PassContext& context, const Node& node) {
  const bool given = node.attributes.Has("axes") || InputOf(node, 1) != kNoValue;
  const auto axes = IntsOf(context.graph(), node, "axes", 1);
  return If(given && axes && axes->empty(), node);
}

ValueId Transpose(const PassContext& context, const Node& node) {
  const std::vector<int64_t> perm = node.attributes.Ints("perm");
  const auto rank = RankOf(context.graph(), node.inputs[0]);
  if (!node.attributes.Has("perm")) return If(rank && *rank <= 1, node);
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return kNoValue;
  }
  return node.inputs[0];
}

bool TakesAll(const Graph& graph, ValueId x, int64_t axis, int64_t start, int64_t end) {
  if (start == 0 && end >= kToTheEnd) return true;
  const auto& shape = graph.value(x).shape;
  if (!shape) return false;
  const auto rank = static_cast<int64_t>(shape->size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || !(*shape)[static_cast<size_t>(axis)].known()) return false;
  const int64_t dim = (*shape)[static_cast<size_t>(axis)].value;
  return start <= (start < 0 ? -dim : 0) && end >= dim;
}

ValueId Slice(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const auto starts = IntsOf(graph, node, "starts", 1), ends = IntsOf(graph, node, "ends", 2);
  const auto axes = IntsOf(graph, node, "axes", 3), steps = IntsOf(graph, node, "steps", 4);
  if (!starts || !ends || !axes || !steps || starts->empty() || ends->size() != starts->size()) return kNoValue;
  if (!axes->empty() && axes->size() != starts->size()) return kNoValue;
  if (!std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s == 1; })) return kNoValue;
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t axis = axes->empty() ? static_cast<int64_t>(i) : (*axes)[i];
    if (!TakesAll(graph, node.inputs[0], axis, (*starts)[i], (*ends)[i])) return kNoValue;
  }
  return node.inputs[0];
}

ValueId Pad(const PassContext& context, const Node& node) {
  const auto pads = IntsOf(context.graph(), node, context.opset() < 2 ? "paddings" : "pads", 1);
  const bool none = pads && !pads->empty() && std::all_of(pads->begin(), pads->end(), [](int64_t p) { return p == 0; });
  return If(none, node);
}

ValueId Expand(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const ValueId x = node.inputs[0], shape = InputOf(node, 1);
  if (SameKnownDims(graph, x, OutputOf(node, 0)) || IsShapeOf(graph, shape, x)) return x;
  const auto wanted = IntsOf(graph, shape);
  const auto& dims = graph.value(x).shape;
  if (!wanted || !dims || wanted->size() > dims->size()) return kNoValue;
  const size_t ahead = dims->size() - wanted->size();
  for (size_t i = 0; i < wanted->size(); ++i) {
    const Dim& dim = (*dims)[ahead + i];
    if ((*wanted)[i] != 1 && !(dim.known() && dim.value == (*wanted)[i])) return kNoValue;
  }
  return x;
}

ValueId Tile(const PassContext& context, const Node& node) {
  if (context.opset() < 6) return kNoValue;  // one axis, and a count of the input's type
  const auto repeats = IntsOf(context.graph(), InputOf(node, 1));
  return If(repeats && std::all_of(repeats->begin(), repeats->end(), [](int64_t n) { return n == 1; }), node);
}

ValueId Concat(const PassContext& /*context*/, const Node& node) { return If(node.inputs.size() == 1, node); }
ValueId Split(const PassContext& /*context*/, const Node& node) { return If(node.outputs.size() == 1, node); }
ValueId Blocks(const PassContext& /*context*/, const Node& node) {
  return If(node.attributes.Int("blocksize", 0) == 1, node);
}

// Every mode gives an element back at its own place, and scale 1 asks for those alone. Not so where places are moved
// by half an element or cropped.
ValueId Resize(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const std::string places = node.attributes.String("coordinate_transformation_mode", "half_pixel");
  if (places == "tf_crop_and_resize" || places == "tf_half_pixel_for_nn") return kNoValue;
  if (node.attributes.Has("scales")) {
    const auto scales = node.attributes.Floats("scales");
    return If(std::all_of(scales.begin(), scales.end(), [](float s) { return s == 1.0F; }), node);
  }
  const bool with_roi = node.op_type == "Resize" && context.opset() >= 11;
  const ValueId scales = InputOf(node, with_roi ? 2 : 1), sizes = with_roi ? InputOf(node, 3) : kNoValue;
  if (sizes == kNoValue) return If(IsConstantOf(graph, scales, 1), node);
  const bool one_policy = node.attributes.String("keep_aspect_ratio_policy", "stretch") == "stretch";
  return If(one_policy && IntsOf(graph, sizes) && SameKnownDims(graph, node.inputs[0], OutputOf(node, 0)), node);
}

}  // namespace

std::span<const NoOp> MoverNoOps() {
  static constexpr NoOp kAll[] = {{"Cast", Cast},           {"CastLike", CastLike},   {"Reshape", Reshape},
                                  {"Flatten", Flatten},     {"Squeeze", Squeeze},     {"Unsqueeze", Unsqueeze},
                                  {"Transpose", Transpose}, {"Slice", Slice},         {"Pad", Pad},
                                  {"Expand", Expand},       {"Tile", Tile},           {"Concat", Concat},
                                  {"Split", Split},         {"DepthToSpace", Blocks}, {"SpaceToDepth", Blocks},
                                  {"Resize", Resize},       {"Upsample", Resize}};
  return kAll;
}

}  // namespace quant
