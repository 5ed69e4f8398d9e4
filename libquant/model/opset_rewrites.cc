#include "libquant/model/opset_rewrites.h"

#include <algorithm>

namespace quant {

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
  Behind("Reshape", {dims}, {});
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
