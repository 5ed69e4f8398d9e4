#include "libquant/model/opset_rewrites.h"

#include <algorithm>

namespace quant {

Status OpsetRewrite::CheckKnown(std::string_view attribute) {
  const Attribute* found = node().attributes.Find(attribute);
  if (found == nullptr || found->ref_name.empty()) return OkStatus();
  return Unsupported("{} of {} is a function's parameter, which an input cannot be", attribute, node().op_type);
}

ValueId OpsetRewrite::Before(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes) {
  Value value;
  value.name = graph_.FreshName(graph_.NodeLabel(id_) + "_" + op_type);
  value.region = node().region;
  const ValueId id = graph_.AddValue(std::move(value));
  Node made;
  made.name = graph_.FreshName(graph_.NodeLabel(id_) + "/" + op_type);
  made.op_type = op_type;
  made.region = node().region;
  made.inputs = std::move(inputs);
  made.outputs = {id};
  made.attributes = std::move(attributes);
  graph_.MoveBefore(graph_.AddNode(std::move(made)), id_);
  return id;
}

Status OpsetRewrite::IntsToInput(std::string_view attribute, int32_t index) {
  RETURN_IF_ERROR(CheckKnown(attribute));
  if (!node().attributes.Has(attribute)) return OkStatus();
  const std::vector<int64_t> ints = node().attributes.Ints(attribute);
  node().attributes.Remove(attribute);
  const auto count = static_cast<int64_t>(ints.size());
  graph_.SetInput(id_, index,
                  Constant(graph_.NodeLabel(id_) + "_" + std::string(attribute), Tensor::Of<int64_t>({count}, ints)));
  return OkStatus();
}

StatusOr<Tensor> OpsetRewrite::ScalarLikeInput(float value) {
  const DType dtype = graph_.value(node().inputs.at(0)).dtype;
  switch (dtype) {
    case DType::kFloat:
      return Tensor::Scalar(value);
    case DType::kFloat16:
      return Tensor::Scalar(float16(value));
    case DType::kDouble:
      return Tensor::Scalar(static_cast<double>(value));
    default:
      return Unsupported("the element type of {}'s input is not known", node().op_type);
  }
}

bool OpsetRewrite::IsEmptyConstant(size_t input) const {
  const Node& n = graph_.node(id_);
  if (input >= n.inputs.size() || n.inputs[input] == kNoValue) return false;
  const auto& constant = graph_.value(n.inputs[input]).constant;
  return constant && constant->size() == 0;
}

// spatial = 0 asked for statistics per element; 1 is the only meaning left.
Status OpsetRewrite::DropSpatial() {
  if (node().attributes.Int("spatial", 1) == 0) return Unsupported("BatchNormalization with spatial = 0");
  node().attributes.Remove("spatial");
  return OkStatus();
}

Status OpsetRewrite::OnlyInferenceOutputs() {
  Node& n = node();
  for (size_t i = 1; i < n.outputs.size(); ++i) {
    const ValueId v = n.outputs[i];
    if (v != kNoValue && !graph_.value(v).uses.empty()) return Unsupported("BatchNormalization with training outputs");
    if (v != kNoValue) graph_.value(v).removed = true;
  }
  n.outputs.resize(std::min<size_t>(n.outputs.size(), 1));
  return OkStatus();
}

Status OpsetRewrite::ClipBoundsToInputs() {
  int32_t index = 1;
  for (const char* bound : {"min", "max"}) {
    RETURN_IF_ERROR(CheckKnown(bound));
    if (node().attributes.Has(bound)) {
      ASSIGN_OR_RETURN(Tensor scalar, ScalarLikeInput(node().attributes.Float(bound, 0)));
      node().attributes.Remove(bound);
      graph_.SetInput(id_, index, Constant(graph_.NodeLabel(id_) + "_" + bound, std::move(scalar)));
    }
    ++index;
  }
  return OkStatus();
}

Status OpsetRewrite::AxisToInput() {
  RETURN_IF_ERROR(CheckKnown("axis"));
  const int64_t axis = node().attributes.Int("axis", 1);
  node().attributes.Remove("axis");
  graph_.SetInput(id_, 2, Constant(graph_.NodeLabel(id_) + "_axis", Tensor::Scalar(axis)));
  return OkStatus();
}

Status OpsetRewrite::DropoutMaskBecomesBool() {
  const Node& n = node();
  if (n.outputs.size() > 1 && n.outputs[1] != kNoValue && !graph_.value(n.outputs[1]).uses.empty()) {
    return Unsupported("Dropout whose mask is read: its type changes at opset 10");
  }
  return OkStatus();
}

Status OpsetRewrite::DropoutRatioToInput() {
  RETURN_IF_ERROR(CheckKnown("ratio"));
  if (!node().attributes.Has("ratio")) return OkStatus();
  const float ratio = node().attributes.Float("ratio", 0.5f);
  node().attributes.Remove("ratio");
  graph_.SetInput(id_, 1, Constant(graph_.NodeLabel(id_) + "_ratio", Tensor::Scalar(ratio)));
  return OkStatus();
}

Status OpsetRewrite::GridSampleModeNames() {
  const std::string mode = node().attributes.String("mode", "bilinear");
  if (mode == "bilinear") node().attributes.Set("mode", std::string("linear"));
  if (mode == "bicubic") node().attributes.Set("mode", std::string("cubic"));
  return OkStatus();
}

// scale and bias were per group [G] and are per channel [C] from 21: each entry is repeated C / G times.
Status OpsetRewrite::GroupScalesPerChannel() {
  const auto& shape = graph_.value(node().inputs.at(0)).shape;
  const int64_t groups = node().attributes.Int("num_groups", 0);
  if (!shape || shape->size() < 2 || !(*shape)[1].known() || groups < 1 || (*shape)[1].value % groups != 0) {
    return Unsupported("GroupNormalization whose channel count is not known");
  }
  const int64_t repeat = (*shape)[1].value / groups;
  const std::string label = graph_.NodeLabel(id_);
  for (int32_t i : {1, 2}) {
    const ValueId column = Constant(label + "_column", Tensor::Of<int64_t>({2}, std::vector<int64_t>{groups, 1}));
    const ValueId wide = Constant(label + "_wide", Tensor::Of<int64_t>({2}, std::vector<int64_t>{groups, repeat}));
    const ValueId flat = Constant(label + "_flat", Tensor::Of<int64_t>({1}, std::vector<int64_t>{-1}));
    ValueId v = Before("Reshape", {node().inputs.at(static_cast<size_t>(i)), column}, {});
    v = Before("Expand", {v, wide}, {});
    graph_.SetInput(id_, i, Before("Reshape", {v, flat}, {}));
  }
  return OkStatus();
}

// Up to 12 these operators see a matrix, cut at `axis` (default 1), and work along its rows.
Status OpsetRewrite::CoercedToLastAxis() {
  RETURN_IF_ERROR(CheckKnown("axis"));
  const ValueId x = node().inputs.at(0);
  const int64_t axis = node().attributes.Int("axis", 1);
  const auto& shape = graph_.value(x).shape;
  node().attributes.Set("axis", int64_t{-1});
  const bool is_last = axis == -1 || (shape && axis == static_cast<int64_t>(shape->size()) - 1);
  if (is_last) return OkStatus();
  Attributes cut;
  cut.Set("axis", axis);
  const ValueId dims = Before("Shape", {x}, {});
  graph_.SetInput(id_, 0, Before("Flatten", {x}, std::move(cut)));
  // The node's output becomes the matrix; a Reshape behind it takes the old output over.
  const ValueId y = node().outputs.at(0);
  Value matrix;
  matrix.name = graph_.FreshName(graph_.value(y).name + "_matrix");
  matrix.dtype = graph_.value(y).dtype;
  matrix.region = node().region;
  const ValueId m = graph_.AddValue(std::move(matrix));
  node().outputs[0] = m;
  graph_.value(m).producer = id_;
  Node reshape;
  reshape.name = graph_.FreshName(graph_.NodeLabel(id_) + "/Reshape");
  reshape.op_type = "Reshape";
  reshape.region = node().region;
  reshape.inputs = {m, dims};
  reshape.outputs = {y};
  const NodeId after = graph_.AddNode(std::move(reshape));
  // Behind this node: before it, then this node before that.
  graph_.MoveBefore(after, id_);
  graph_.MoveBefore(id_, after);
  return OkStatus();
}

Status OpsetRewrite::PadAttributesToInputs() {
  RETURN_IF_ERROR(CheckKnown("value"));
  RETURN_IF_ERROR(IntsToInput("pads", 1));
  const float value = node().attributes.Float("value", 0.0f);
  node().attributes.Remove("value");
  if (value == 0.0f) return OkStatus();
  ASSIGN_OR_RETURN(Tensor scalar, ScalarLikeInput(value));
  graph_.SetInput(id_, 2, Constant(graph_.NodeLabel(id_) + "_value", std::move(scalar)));
  return OkStatus();
}

Status OpsetRewrite::AxesToInput() { return IntsToInput("axes", 1); }

// Opset 10 scaled asymmetrically and rounded down; from 11 that has to be said.
Status OpsetRewrite::ResizeGetsCoordinates() {
  const ValueId scales = node().inputs.at(1);
  node().attributes.Set("coordinate_transformation_mode", std::string("asymmetric"));
  node().attributes.Set("nearest_mode", std::string("floor"));
  graph_.SetInput(id_, 1, Constant(graph_.NodeLabel(id_) + "_roi", Tensor::Of<float>({0}, std::span<const float>())));
  graph_.SetInput(id_, 2, scales);
  return OkStatus();
}

// Opset 11 needed empty tensors where 13 leaves inputs out.
Status OpsetRewrite::ResizeDropsEmptyInputs() {
  if (IsEmptyConstant(1)) graph_.SetInput(id_, 1, kNoValue);
  const bool sized = node().inputs.size() > 3 && node().inputs[3] != kNoValue;
  if (sized && IsEmptyConstant(2)) graph_.SetInput(id_, 2, kNoValue);
  return OkStatus();
}

Status OpsetRewrite::RoiAlignKeepsCoordinates() {
  node().attributes.Set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return OkStatus();
}

Status OpsetRewrite::ScatterBecomesScatterElements() {
  node().op_type = "ScatterElements";
  return OkStatus();
}

Status OpsetRewrite::SliceAttributesToInputs() {
  RETURN_IF_ERROR(IntsToInput("starts", 1));
  RETURN_IF_ERROR(IntsToInput("ends", 2));
  return IntsToInput("axes", 3);
}

Status OpsetRewrite::SplitToInput() { return IntsToInput("split", 1); }

Status OpsetRewrite::SplitGetsCount() {
  const Node& n = node();
  if (n.inputs.size() > 1 && n.inputs[1] != kNoValue) return OkStatus();
  node().attributes.Set("num_outputs", static_cast<int64_t>(n.outputs.size()));
  return OkStatus();
}

Status OpsetRewrite::CountToInput() {
  RETURN_IF_ERROR(CheckKnown("k"));
  const int64_t k = node().attributes.Int("k", 1);
  node().attributes.Remove("k");
  graph_.SetInput(id_, 1, Constant(graph_.NodeLabel(id_) + "_k", Tensor::Of<int64_t>({1}, std::span(&k, 1))));
  return OkStatus();
}

Status OpsetRewrite::UpsampleScalesToInput() {
  RETURN_IF_ERROR(CheckKnown("scales"));
  const std::vector<float> scales = node().attributes.Floats("scales");
  node().attributes.Remove("scales");
  const auto count = static_cast<int64_t>(scales.size());
  graph_.SetInput(id_, 1, Constant(graph_.NodeLabel(id_) + "_scales", Tensor::Of<float>({count}, scales)));
  return OkStatus();
}

// The same inputs, modes and coordinates; Resize gets its coordinates spelled out at 11.
Status OpsetRewrite::UpsampleBecomesResize() {
  node().op_type = "Resize";
  return OkStatus();
}

}  // namespace quant
