// The rewrites that opset.def names. Each mends one node, in place where it can: names and outputs stay.
#pragma once

#include <string>
#include <utility>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

class OpsetRewrite {
 public:
  OpsetRewrite(Graph& graph, NodeId node) : graph_(graph), id_(node) {}

  Status DropSpatial();
  Status OnlyInferenceOutputs();
  Status ClipBoundsToInputs();
  Status AxisToInput();
  Status DropoutMaskBecomesBool();
  Status DropoutRatioToInput();
  Status GridSampleModeNames();
  Status GroupScalesPerChannel();
  Status CoercedToLastAxis();
  Status PadAttributesToInputs();
  Status AxesToInput();
  Status ResizeGetsCoordinates();
  Status ResizeDropsEmptyInputs();
  Status RoiAlignKeepsCoordinates();
  Status ScatterBecomesScatterElements();
  Status SliceAttributesToInputs();
  Status SplitToInput();
  Status SplitGetsCount();
  Status CountToInput();
  Status UpsampleScalesToInput();
  Status UpsampleBecomesResize();

 private:
  Node& node() { return graph_.node(id_); }
  ValueId Constant(const std::string& hint, Tensor tensor) {
    return graph_.AddConstant(hint, std::move(tensor), node().region);
  }
  // Unsupported when the attribute is a function's parameter: then its value is not known here.
  Status CheckKnown(std::string_view attribute);
  // A node just before this one; returns its only output.
  ValueId Before(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes);
  // The attribute, when it is there, as an int64 vector at input `index`; it goes.
  Status IntsToInput(std::string_view attribute, int32_t index);
  // A scalar of the type of input 0.
  StatusOr<Tensor> ScalarLikeInput(float value);
  bool IsEmptyConstant(size_t input) const;

  Graph& graph_;
  NodeId id_;
};

}  // namespace quant
