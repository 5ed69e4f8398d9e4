// ConvTranspose: each input element adds its value times a kernel to the output:
//   y[n, m, i * stride - pad + k * dilation] += x[n, c, i] * w[c, m, k]
// as a product with the transposed weight, whose columns are then added into place.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

StatusOr<ConvPlan> PlanTranspose(const KernelContext& context) {
  const Tensor &x = context.in(0), &w = context.in(1);
  const Tensor* bias = context.input(2);
  ConvPlan plan;
  plan.groups = context.attributes().Int("group", 1);
  if (x.rank() < 3 || w.rank() != x.rank()) {
    return DataError("an input of {} with a weight of {}", ToString(x.dims()), ToString(w.dims()));
  }
  const int64_t channels = x.dims()[1];
  if (plan.groups < 1 || channels == 0 || channels % plan.groups != 0 || w.dims()[0] != channels || w.dims()[1] == 0) {
    return DataError("an input of {} channels in {} groups does not fit a weight of {}", channels, plan.groups,
                     ToString(w.dims()));
  }
  const auto filters = CheckedMul(w.dims()[1], plan.groups);
  if (!filters) return DataError("{} filters in {} groups", w.dims()[1], plan.groups);
  if (bias != nullptr && bias->dims() != Dims{*filters}) {
    return DataError("a bias of {} for {} filters", ToString(bias->dims()), *filters);
  }
  ASSIGN_OR_RETURN(const Window window, ReadWindow(context.attributes(), WindowKind::kTranspose,
                                                   std::span(x.dims()).subspan(2), std::span(w.dims()).subspan(2)));
  ASSIGN_OR_RETURN(plan.axes, ThreeAxes(window));
  plan.batch = x.dims()[0];
  plan.in_channels = channels / plan.groups;
  plan.out_channels = w.dims()[1];
  plan.out_dims = WithSpatial(plan.batch, *filters, window);
  if (!CheckedProduct(plan.out_dims)) return DataError("the output {} overflows", ToString(plan.out_dims));
  plan.CountElements();
  return plan;
}

// Adds one tap's values, one for each input position, to the positions of one output plane that they meet.
template <typename T>
void ScatterTap(const std::array<WindowAxis, 3>& axes, const std::array<int64_t, 3>& tap, const T* values, T* plane) {
  const auto& [d, h, w] = axes;
  // Input columns whose target column lies inside the output.
  const int64_t first = tap[2] * w.dilation - w.pad_begin;
  const int64_t lo = first >= 0 ? 0 : std::min(w.in, CeilDiv(-first, w.stride));
  const int64_t hi = first >= w.out ? 0 : std::min(w.in, CeilDiv(w.out - first, w.stride));
  for (int64_t id = 0; id < d.in; ++id) {
    const int64_t od = d.start(id) + tap[0] * d.dilation;
    if (od < 0 || od >= d.out) continue;
    for (int64_t ih = 0; ih < h.in; ++ih) {
      const int64_t oh = h.start(ih) + tap[1] * h.dilation;
      if (oh < 0 || oh >= h.out) continue;
      T* row = plane + (od * h.out + oh) * w.out + first;
      const T* in = values + (id * h.in + ih) * w.in;
      if (w.stride == 1) {
        for (int64_t i = lo; i < hi; ++i) row[i] += in[i];
      } else {
        for (int64_t i = lo; i < hi; ++i) row[i * w.stride] += in[i];
      }
    }
  }
}

constexpr int64_t kPanelElements = 512 * 1024;

template <typename T>
void TransposedConv(const KernelContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias, T* y) {
  // A panel holds all positions of some filters' taps.
  const int64_t of_filter = std::max<int64_t>(plan.taps * plan.in_plane, 1);
  const int64_t filters = std::clamp<int64_t>(kPanelElements / of_filter, 1, plan.out_channels);
  const int64_t pieces = CeilDiv(plan.out_channels, filters);
  ScratchPool scratch(context, filters * of_filter * static_cast<int64_t>(sizeof(T)));
  ParallelFor(plan.batch * plan.groups * pieces, [&](int64_t item) {
    const int64_t first = item % pieces * filters, image_group = item / pieces;
    const int64_t count = std::min(filters, plan.out_channels - first), group = image_group % plan.groups;
    auto lease = scratch.Borrow();
    T* panel = lease.template as<T>();
    const T* weight = w + (group * plan.in_channels * plan.out_channels + first) * plan.taps;
    GemmTile<T>({count * plan.taps, plan.in_plane, plan.in_channels},
                {{weight, plan.out_channels * plan.taps, true},
                 {x + image_group * plan.in_channels * plan.in_plane, plan.in_plane},
                 panel,
                 plan.in_plane});
    for (int64_t m = first; m < first + count; ++m) {
      T* plane = y + (image_group * plan.out_channels + m) * plan.out_plane;
      std::fill_n(plane, plan.out_plane, bias != nullptr ? bias[group * plan.out_channels + m] : T{0});
      std::array<int64_t, 3> tap;
      for (tap[0] = 0; tap[0] < plan.axes[0].kernel; ++tap[0]) {
        for (tap[1] = 0; tap[1] < plan.axes[1].kernel; ++tap[1]) {
          for (tap[2] = 0; tap[2] < plan.axes[2].kernel; ++tap[2], panel += plan.in_plane) {
            ScatterTap(plan.axes, tap, panel, plane);
          }
        }
      }
    }
  });
}

Status EvalConvTranspose(KernelContext& context) {
  const Tensor &x = context.in(0), &w = context.in(1);
  RETURN_IF_ERROR(SameTypes(context, {1, 2}));
  ASSIGN_OR_RETURN(const ConvPlan plan, PlanTranspose(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto ws, FloatInput<T>::Of(context, &w));
    ASSIGN_OR_RETURN(const auto bs, FloatInput<T>::Of(context, context.input(2)));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), plan.out_dims));
    TransposedConv<T>(context, plan, xs.data(), ws.data(), bs.data(), y.data());
    return y.Finish();
  });
}

}  // namespace

const OpDef& ConvTransposeOp() {
  static const OpDef def = {
      .name = "ConvTranspose",
      .since = {1, 11, 22},
      .min_inputs = 2,
      .eval = EvalConvTranspose,
      .role = Weighted{0, 1, 2, [](const Attributes&, int64_t) -> int64_t { return 1; }, nullptr},
      .exactness = Exactness::kRounding,
      .summary = "Transposed convolution over one to three spatial axes",
  };
  return def;
}

}  // namespace quant
