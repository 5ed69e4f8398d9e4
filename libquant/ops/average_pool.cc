// AveragePool: mean of each window, summed in double. With count_include_pad the divisor counts the padding that the
// attributes ask for, but not what a ceil_mode window hangs over it.
#include <functional>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/sum_windows.h"
#include "libquant/ops/window.h"

namespace quant {
namespace {

// Number of taps of the window at output o that count: those inside the input or, including pads, inside the padded
// input.
int64_t CountedTaps(const WindowAxis& axis, int64_t o, bool include_pad) {
  const int64_t begin = axis.start(o);
  if (!include_pad) return std::max<int64_t>(axis.LastTap(begin) - axis.FirstTap(begin), 0);
  const int64_t room = axis.in + axis.pad_end - begin;
  return room <= 0 ? 0 : std::min(axis.kernel, CeilDiv(room, axis.dilation));
}

template <typename T>
void AveragePlane(const std::array<WindowAxis, 3>& axes, bool include_pad, const T* x, double* sums,
                  const std::vector<int64_t>& columns, T* y) {
  const auto& [d, h, w] = axes;
  for (int64_t od = 0; od < d.out; ++od) {
    for (int64_t oh = 0; oh < h.out; ++oh, y += w.out) {
      SumWindows(axes, od, oh, x, sums, std::identity());
      const int64_t lines = CountedTaps(d, od, include_pad) * CountedTaps(h, oh, include_pad);
      for (int64_t o = 0; o < w.out; ++o) {
        const int64_t count = lines * columns[static_cast<size_t>(o)];
        y[o] = count == 0 ? T{0} : static_cast<T>(sums[o] / static_cast<double>(count));
      }
    }
  }
}

Status EvalAveragePool(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  ASSIGN_OR_RETURN(const Window window,
                   ReadWindow(context.attributes(), WindowKind::kPool, std::span(x.dims()).subspan(2), {}));
  ASSIGN_OR_RETURN(const auto axes, ThreeAxes(window));
  const bool include_pad = context.attributes().Int("count_include_pad", 0) != 0;
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y,
                     FloatOutput<T>::Make(context, 0, x.dtype(), WithSpatial(x.dims()[0], x.dims()[1], window)));
    const WindowAxis& w = axes[2];
    std::vector<int64_t> columns(static_cast<size_t>(w.out));
    for (int64_t o = 0; o < w.out; ++o) columns[static_cast<size_t>(o)] = CountedTaps(w, o, include_pad);
    const int64_t in_plane = axes[0].in * axes[1].in * w.in, out_plane = axes[0].out * axes[1].out * w.out;
    ScratchPool scratch(context, w.out * static_cast<int64_t>(sizeof(double)));
    ParallelFor(x.dims()[0] * x.dims()[1], [&](int64_t p) {
      auto sums = scratch.Borrow();
      AveragePlane<T>(axes, include_pad, xs.data() + p * in_plane, sums.as<double>(), columns,
                      y.data() + p * out_plane);
    });
    return y.Finish();
  });
}

}  // namespace

const OpDef& AveragePoolOp() {
  static const OpDef def = {
      .name = "AveragePool",
      .since = {1, 7, 10, 11, 19, 22},
      .min_inputs = 1,
      .eval = EvalAveragePool,
      .role = Requantize{},
      .exactness = Exactness::kRounding,
      .summary = "Mean of each window, with dilations, ceil_mode and count_include_pad",
  };
  return def;
}

}  // namespace quant
