#include "libquant/ops/conv_plan.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/ops/deinterleave.h"
#include "libquant/ops/phased_plane.h"

namespace quant {
namespace {

// An output position, flat and by axis.
struct OutputPosition {
  int64_t flat, slice, line, column;
};

// One row of a panel: tap (kd, kh, kw) of one channel over output positions [begin, end).
template <typename T>
void FillPanelRow(const ConvPlan& plan, const T* channel, const std::array<int64_t, 3>& tap, const IndexRange& inside,
                  const OutputPosition& begin, int64_t end, T padding, T* out) {
  const auto& [d, h, w] = plan.axes;
  int64_t column = begin.column, line = begin.line, slice = begin.slice;
  for (int64_t done = begin.flat; done < end;) {
    const int64_t count = std::min(w.out - column, end - done);
    const int64_t id = d.start(slice) + tap[0] * d.dilation, ih = h.start(line) + tap[1] * h.dilation;
    int64_t lo = count, hi = count;
    if (id >= 0 && id < d.in && ih >= 0 && ih < h.in) {
      lo = std::clamp<int64_t>(inside.begin - column, 0, count);
      hi = std::clamp(inside.end - column, lo, count);
      const T* row = channel + (id * h.in + ih) * w.in;
      for (int64_t i = hi; i < count; ++i) out[i] = padding;
      if (lo < hi) CopyEveryNth(row + (w.start(column + lo) + tap[2] * w.dilation), w.stride, hi - lo, out + lo);
    }
    for (int64_t i = 0; i < lo; ++i) out[i] = padding;
    out += count;
    done += count;
    column = 0;
    if (++line == h.out) line = 0, ++slice;
  }
}

Status CheckConvShapes(const Tensor& x, const Tensor& w, const Tensor* bias, int64_t groups) {
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  if (w.rank() != x.rank()) return DataError("a weight of rank {} for an input of rank {}", w.rank(), x.rank());
  if (groups < 1) return DataError("group is {}", groups);
  const int64_t channels = x.dims()[1], filters = w.dims()[0];
  if (channels % groups != 0 || channels / groups != w.dims()[1] || channels == 0) {
    return DataError("an input of {} channels in {} groups does not fit a weight of {}", channels, groups,
                     ToString(w.dims()));
  }
  if (filters % groups != 0 || filters == 0)
    return DataError("{} filters can't be split into {} groups", filters, groups);
  if (bias != nullptr && bias->dims() != Dims{filters}) {
    return DataError("a bias of {} for {} filters", ToString(bias->dims()), filters);
  }
  return OkStatus();
}

}  // namespace

bool ConvPlan::is_pointwise() const {
  return std::all_of(axes.begin(), axes.end(), [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.out == a.in;
  });
}

bool ConvPlan::is_depthwise() const {
  return in_channels == 1 && groups > 1 && axes[0].in == 1 && axes[0].kernel == 1 && axes[0].out == 1 &&
         axes[0].pad_begin == 0 && PhasedPlane(axes).is_modest();
}

void ConvPlan::CountElements() {
  in_plane = out_plane = taps = 1;
  for (const WindowAxis& axis : axes) {
    in_plane *= axis.in;
    out_plane *= axis.out;
    taps *= axis.kernel;
  }
}

StatusOr<ConvPlan> PlanConv(const KernelContext& context, const Tensor& x, const Tensor& w, const Tensor* bias) {
  ConvPlan plan;
  plan.groups = context.attributes().Int("group", 1);
  RETURN_IF_ERROR(CheckConvShapes(x, w, bias, plan.groups));
  ASSIGN_OR_RETURN(const Window window, ReadWindow(context.attributes(), WindowKind::kConv,
                                                   std::span(x.dims()).subspan(2), std::span(w.dims()).subspan(2)));
  ASSIGN_OR_RETURN(plan.axes, ThreeAxes(window));
  plan.batch = x.dims()[0];
  plan.in_channels = w.dims()[1];
  plan.out_channels = w.dims()[0] / plan.groups;
  plan.out_dims = WithSpatial(plan.batch, w.dims()[0], window);
  if (!CheckedProduct(plan.out_dims)) return DataError("the output {} overflows", ToString(plan.out_dims));
  plan.CountElements();
  return plan;
}

template <typename T>
void FillPanel(const ConvPlan& plan, const T* x, int64_t begin, int64_t end, T padding, T* panel) {
  const auto& [d, h, w] = plan.axes;
  const OutputPosition first = {begin, begin / w.out / h.out, begin / w.out % h.out, begin % w.out};
  std::vector<IndexRange> inside;
  for (int64_t k = 0; k < w.kernel; ++k) inside.push_back(w.OutputsInside(k));
  for (int64_t c = 0; c < plan.in_channels; ++c, x += plan.in_plane) {
    std::array<int64_t, 3> tap;
    for (tap[0] = 0; tap[0] < d.kernel; ++tap[0]) {
      for (tap[1] = 0; tap[1] < h.kernel; ++tap[1]) {
        for (tap[2] = 0; tap[2] < w.kernel; ++tap[2], panel += end - begin) {
          FillPanelRow(plan, x, tap, inside[static_cast<size_t>(tap[2])], first, end, padding, panel);
        }
      }
    }
  }
}

template void FillPanel(const ConvPlan&, const float*, int64_t, int64_t, float, float*);
template void FillPanel(const ConvPlan&, const double*, int64_t, int64_t, double, double*);
template void FillPanel(const ConvPlan&, const uint8_t*, int64_t, int64_t, uint8_t, uint8_t*);

}  // namespace quant
