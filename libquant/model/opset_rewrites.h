// The rewrites that opset.def names for the way up. Each mends one node, in place where it can: names and outputs stay.
#pragma once

#include "libquant/model/node_rewrite.h"

namespace quant {

class OpsetRewrite : private NodeRewrite {
 public:
  using NodeRewrite::NodeRewrite;

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
};

}  // namespace quant
