#include "libquant/model/opset_downgrades.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace quant {

// Before 24 a causal Attention had no mask beside it.
Status OpsetDowngrade::OneKindOfMask() {
  if (node().attributes.Int("is_causal", 0) != 0 && HasInput(3)) {
    return Unsupported("a causal Attention that has a mask as well");
  }
  return OkStatus();
}

// How values beyond an 8-bit float round means nothing to the types that older definitions know.
Status OpsetDowngrade::DropFloat8Rounding() {
  const DType to = DTypeFromNumber(static_cast<int32_t>(node().attributes.Int("to", 0)));
  node().attributes.Remove("round_mode");
  if (InfoOf(to).bits != 8 || !InfoOf(to).is_float) node().attributes.Remove("saturate");
  return OkStatus();
}

// QuantizeLinear's: the zero point, if there is one, has that type anyway; without one it is uint8.
Status OpsetDowngrade::DropOutputType() {
  const auto type = DTypeFromNumber(static_cast<int32_t>(node().attributes.Int("output_dtype", 0)));
  if (HasInput(2) || type == DType::kUint8) node().attributes.Remove("output_dtype");
  return OkStatus();
}

// DequantizeLinear's: its scale's type is what the older definition gives.
Status OpsetDowngrade::DropScaleType() {
  const auto type = DTypeFromNumber(static_cast<int32_t>(node().attributes.Int("output_dtype", 0)));
  if (type != DType::kUndefined && type == graph_.value(node().inputs.at(1)).dtype) {
    node().attributes.Remove("output_dtype");
  }
  return OkStatus();
}

Status OpsetDowngrade::AxisToAttribute() {
  int64_t axis = -2;
  if (HasInput(2)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ConstantInts(2));
    if (axes.size() != 1) return Unsupported("{} along {} axes", node().op_type, axes.size());
    axis = axes[0];
    graph_.SetInput(id_, 2, kNoValue);
  }
  if (axis < 0) {
    ASSIGN_OR_RETURN(const int64_t rank, RankOf(0));
    axis += rank;
  }
  node().attributes.Set("axis", axis);
  return OkStatus();
}

Status OpsetDowngrade::GridSampleOldNames() {
  ASSIGN_OR_RETURN(const int64_t rank, RankOf(0));
  if (rank != 4) return Unsupported("GridSample of rank {}: before opset 20 there are images only", rank);
  const std::string mode = node().attributes.String("mode", "linear");
  node().attributes.Set("mode", mode == "linear" ? "bilinear" : mode == "cubic" ? std::string("bicubic") : mode);
  return OkStatus();
}

template <typename T>
Status OpsetDowngrade::SpreadInput(int32_t input, const std::vector<int64_t>& axes, int64_t rank, T otherwise) {
  const auto i = static_cast<size_t>(input);
  const auto& constant = graph_.value(node().inputs.at(i)).constant;
  if (!constant || constant->dtype() != DTypeOf<T>() || constant->size() % static_cast<int64_t>(axes.size()) != 0) {
    return Unsupported("{} for some axes, whose input {} is no constant", node().op_type, input);
  }
  ASSIGN_OR_RETURN(const Tensor given, constant->Materialize());
  const size_t parts = static_cast<size_t>(given.size()) / axes.size();  // Pad: begins, then ends
  std::vector<T> all(static_cast<size_t>(rank) * parts, otherwise);
  for (size_t part = 0; part < parts; ++part) {
    for (size_t a = 0; a < axes.size(); ++a) {
      const int64_t axis = axes[a] < 0 ? axes[a] + rank : axes[a];
      if (axis < 0 || axis >= rank) return DataError("{}: axis {} of rank {}", node().op_type, axes[a], rank);
      all[part * static_cast<size_t>(rank) + static_cast<size_t>(axis)] = given.data<T>()[part * axes.size() + a];
    }
  }
  const std::string name = graph_.value(node().inputs[i]).name + "_all";
  graph_.SetInput(id_, input, Constant(name, Tensor::Of<T>({rank * static_cast<int64_t>(parts)}, all)));
  return OkStatus();
}

Status OpsetDowngrade::SpellOutPads() {
  if (!HasInput(3)) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ConstantInts(3));
  ASSIGN_OR_RETURN(const int64_t rank, RankOf(0));
  graph_.SetInput(id_, 3, kNoValue);
  if (axes.empty()) return OkStatus();
  if (graph_.value(node().inputs.at(1)).constant) return SpreadInput<int64_t>(1, axes, rank, 0);
  // Begins and ends come at run time: they go where their axes are among zeros.
  std::vector<int64_t> places;
  for (int64_t part : {0, 1}) {
    for (int64_t axis : axes) places.push_back(part * rank + (axis < 0 ? axis + rank : axis));
  }
  const auto count = static_cast<int64_t>(places.size());
  const std::vector<int64_t> none(static_cast<size_t>(2 * rank), 0);
  const std::string label = graph_.NodeLabel(id_);
  const ValueId zeros = Constant(label + "_zeros", Tensor::Of<int64_t>({2 * rank}, none));
  const ValueId where = Constant(label + "_places", Tensor::Of<int64_t>({count}, places));
  graph_.SetInput(id_, 1, Before("ScatterElements", {zeros, where, node().inputs.at(1)}, {}));
  return OkStatus();
}

Status OpsetDowngrade::AxesToAttribute() {
  const bool noop = node().attributes.Int("noop_with_empty_axes", 0) != 0;
  std::vector<int64_t> axes;
  if (HasInput(1)) {
    ASSIGN_OR_RETURN(axes, ConstantInts(1));
    graph_.SetInput(id_, 1, kNoValue);
  }
  if (axes.empty() && noop) return Unsupported("{} over no axes", node().op_type);
  node().attributes.Remove("noop_with_empty_axes");
  if (!axes.empty()) node().attributes.Set("axes", axes);
  return OkStatus();
}

Status OpsetDowngrade::SpellOutResize() {
  const std::vector<int64_t> axes = node().attributes.Ints("axes");
  if (!axes.empty()) {
    ASSIGN_OR_RETURN(const int64_t rank, RankOf(0));
    if (HasInput(1)) return Unsupported("Resize of a region of interest along some axes");
    if (HasInput(3)) {
      const std::optional<Shape> shape = graph_.value(node().inputs.at(0)).shape;  // a copy: values are added below
      const bool known = shape && std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.known(); });
      if (!known) return Unsupported("Resize to sizes along some axes, whose other sizes are not known");
      RETURN_IF_ERROR(SpreadInput<int64_t>(3, axes, rank, 0));
      ASSIGN_OR_RETURN(std::vector<int64_t> sizes, ConstantInts(3));
      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto is_it = [&](int64_t a) { return (a < 0 ? a + rank : a) == static_cast<int64_t>(i); };
        if (std::none_of(axes.begin(), axes.end(), is_it)) sizes[i] = (*shape)[i].value;
      }
      const std::string name = graph_.NodeLabel(id_) + "_sizes";
      graph_.SetInput(id_, 3, Constant(name, Tensor::Of<int64_t>({rank}, sizes)));
    } else {
      RETURN_IF_ERROR(SpreadInput<float>(2, axes, rank, 1.0f));
    }
    node().attributes.Remove("axes");
  }
  return OkStatus();
}

Status OpsetDowngrade::OldCoordinates() {
  if (node().attributes.String("coordinate_transformation_mode", "") == "half_pixel_symmetric") {
    return Unsupported("Resize with half_pixel_symmetric coordinates");
  }
  return OkStatus();
}

Status OpsetDowngrade::OldRoiCoordinates() {
  const std::string mode = node().attributes.String("coordinate_transformation_mode", "half_pixel");
  if (mode != "output_half_pixel") return Unsupported("RoiAlign with {} coordinates", mode);
  node().attributes.Remove("coordinate_transformation_mode");
  return OkStatus();
}

// Scatters' min and max came with 18.
Status OpsetDowngrade::PlainReduction() {
  const std::string reduction = node().attributes.String("reduction", "none");
  if (reduction == "min" || reduction == "max")
    return Unsupported("{} with the reduction {}", node().op_type, reduction);
  return OkStatus();
}

// With allowzero a 0 is a length; without it, "as in the input". Shapes without a 0 are the same under both.
Status OpsetDowngrade::KeepZeroDims() {
  if (node().attributes.Int("allowzero", 0) == 0) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ConstantInts(1));
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return Unsupported("a Reshape to a length of 0");
  node().attributes.Remove("allowzero");
  return OkStatus();
}

Status OpsetDowngrade::SliceOfShape() {
  for (const char* name : {"start", "end"}) RETURN_IF_ERROR(CheckKnown(name));
  const int64_t start = node().attributes.Int("start", 0), end = node().attributes.Int("end", INT64_MAX);
  node().attributes.Remove("start");
  node().attributes.Remove("end");
  if (start == 0 && end == INT64_MAX) return OkStatus();
  const std::string label = graph_.NodeLabel(id_);
  const ValueId from = Constant(label + "_start", Tensor::Of<int64_t>({1}, std::span(&start, 1)));
  const ValueId to = Constant(label + "_end", Tensor::Of<int64_t>({1}, std::span(&end, 1)));
  Behind("Slice", {from, to}, {});
  return OkStatus();
}

// Before 18 equal parts had to be equal; what is left over for the last part is said by `split`.
Status OpsetDowngrade::SplitCountToSizes() {
  RETURN_IF_ERROR(CheckKnown("num_outputs"));
  if (HasInput(1)) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t rank, RankOf(0));
  int64_t axis = node().attributes.Int("axis", 0);
  if (axis < 0) axis += rank;
  const auto& shape = graph_.value(node().inputs.at(0)).shape;
  if (!shape || axis < 0 || axis >= rank || !(*shape)[static_cast<size_t>(axis)].known()) {
    return Unsupported("a Split in parts along an axis of unknown length");
  }
  const int64_t length = (*shape)[static_cast<size_t>(axis)].value;
  const auto count = static_cast<int64_t>(node().outputs.size());
  node().attributes.Remove("num_outputs");
  if (count == 0 || length % count == 0) return OkStatus();
  const int64_t part = (length + count - 1) / count;
  std::vector<int64_t> sizes(static_cast<size_t>(count), part);
  sizes.back() = length - part * (count - 1);
  graph_.SetInput(id_, 1, Constant(graph_.NodeLabel(id_) + "_split", Tensor::Of<int64_t>({count}, sizes)));
  return OkStatus();
}

}  // namespace quant
