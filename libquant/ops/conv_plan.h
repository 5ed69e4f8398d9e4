// What a checked Conv or ConvTranspose node computes, in numbers. Shared by their kernels.
#pragma once

#include "libquant/ops/op_def.h"
#include "libquant/ops/window.h"

namespace quant {

struct ConvPlan {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of one group
  int64_t out_channels = 0;  // of one group
  std::array<WindowAxis, 3> axes;
  int64_t in_plane = 1;   // spatial elements of one channel
  int64_t out_plane = 1;  // the same of the output
  int64_t taps = 1;       // elements of one kernel
  Dims out_dims;

  void CountElements();  // sets the planes and the taps from `axes`
  int64_t reduction() const { return in_channels * taps; }
  bool is_pointwise() const;  // 1x1, stride 1, no pads: the input is the matrix
  bool is_depthwise() const;  // one input channel a group, at most two spatial axes, a window of its input's order
};

// x: [N, C, spatial...], w: [M, C / group, kernel...]; DataError when they, a bias or the attributes don't fit.
StatusOr<ConvPlan> PlanConv(const KernelContext& context, const Tensor& x, const Tensor& w, const Tensor* bias);

// The kernel of Conv: inputs x, w and an optional bias.
Status EvalConv(KernelContext& context);

// Rows of x's windows, as the product with the weight wants them: panel[r][p - begin] for r over (channel, taps) of
// one group and p over output positions [begin, end). Positions in the padding hold `padding`.
// `x` is the first channel of the group.
template <typename T>
void FillPanel(const ConvPlan& plan, const T* x, int64_t begin, int64_t end, T padding, T* panel);

// y[n, c * multiplier + m] = bias + windows of x[n, c] * w, for plans that are depthwise. `tail` may be empty.
template <typename T>
void DepthwiseConv(const KernelContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias,
                   const Tail& tail, T* y);

}  // namespace quant
