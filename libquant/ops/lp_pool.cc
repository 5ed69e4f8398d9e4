// LpPool: the p-norm of each window, (sum of |x|^p)^(1/p), summed in double. Padding counts as zero.
#include <cmath>

#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/sum_windows.h"

namespace quant {
namespace {

template <typename T>
void SumPowers(const std::array<WindowAxis, 3>& axes, int64_t slice, int64_t line, int64_t p, const T* x,
               double* sums) {
  if (p == 1) {
    SumWindows(axes, slice, line, x, sums, [](double v) { return std::abs(v); });
  } else if (p == 2) {
    SumWindows(axes, slice, line, x, sums, [](double v) { return v * v; });
  } else {
    SumWindows(axes, slice, line, x, sums, [p](double v) { return std::pow(std::abs(v), static_cast<double>(p)); });
  }
}

double Root(double sum, int64_t p) {
  if (p == 1) return sum;
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / static_cast<double>(p));
}

template <typename T>
void NormPlane(const std::array<WindowAxis, 3>& axes, int64_t p, const T* x, double* sums, T* y) {
  const auto& [d, h, w] = axes;
  for (int64_t od = 0; od < d.out; ++od) {
    for (int64_t oh = 0; oh < h.out; ++oh, y += w.out) {
      SumPowers(axes, od, oh, p, x, sums);
      for (int64_t o = 0; o < w.out; ++o) y[o] = static_cast<T>(Root(sums[o], p));
    }
  }
}

Status EvalLpPool(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  const int64_t p = context.attributes().Int("p", 2);
  if (p < 1) return DataError("p is {}", p);
  ASSIGN_OR_RETURN(const Window window,
                   ReadWindow(context.attributes(), WindowKind::kPool, std::span(x.dims()).subspan(2), {}));
  ASSIGN_OR_RETURN(const auto axes, ThreeAxes(window));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y,
                     FloatOutput<T>::Make(context, 0, x.dtype(), WithSpatial(x.dims()[0], x.dims()[1], window)));
    const int64_t in_plane = axes[0].in * axes[1].in * axes[2].in, out_plane = axes[0].out * axes[1].out * axes[2].out;
    ScratchPool scratch(context, axes[2].out * static_cast<int64_t>(sizeof(double)));
    ParallelFor(x.dims()[0] * x.dims()[1], [&](int64_t plane) {
      auto sums = scratch.Borrow();
      NormPlane<T>(axes, p, xs.data() + plane * in_plane, sums.as<double>(), y.data() + plane * out_plane);
    });
    return y.Finish();
  });
}

}  // namespace

const OpDef& LpPoolOp() {
  static const OpDef def = {.name = "LpPool",
                            .since = {2, 11, 18, 22},
                            .min_inputs = 1,
                            .eval = EvalLpPool,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "p-norm of each window"};
  return def;
}

}  // namespace quant
