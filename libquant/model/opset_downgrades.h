// The rewrites that opset.def names for the way down: each turns a node of the newer definition into one of the older,
// or says why it is none. What needs no rewrite of its own (attributes at their defaults, inputs left out, element
// types) is up to FitOlderDefinition, which comes after.
#pragma once

#include "libquant/model/node_rewrite.h"

namespace quant {

class OpsetDowngrade : private NodeRewrite {
 public:
  using NodeRewrite::NodeRewrite;

  Status AsItIs() { return OkStatus(); }
  Status OneKindOfMask();
  Status DropFloat8Rounding();
  Status DropOutputType();
  Status DropScaleType();
  Status AxisToAttribute();
  Status GridSampleOldNames();
  Status SpellOutPads();
  Status AxesToAttribute();
  Status SpellOutResize();
  Status OldCoordinates();
  Status OldRoiCoordinates();
  Status PlainReduction();
  Status KeepZeroDims();
  Status SliceOfShape();
  Status SplitCountToSizes();

 private:
  // Makes the entries of a constant input, given for `axes`, one for each of `rank` axes; the others get `otherwise`.
  template <typename T>
  Status SpreadInput(int32_t input, const std::vector<int64_t>& axes, int64_t rank, T otherwise);
};

}  // namespace quant
