// RoiAlign: each region of a feature map as a grid of bins, a bin being the mean or the maximum over points spread
// evenly in it, each interpolated from its four neighbours.
//   X [N, C, H, W], rois [R, 4] as x1 y1 x2 y2, batch_indices [R], Y [R, C, output_height, output_width]
// The maximum is over the four weighted neighbours of each point, not over the points' values: what ONNX's reference
// and ONNX Runtime do.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

constexpr int64_t kMostPoints = int64_t{1} << 14;  // of a bin along an axis

struct RoiPlan {
  bool take_max = false;
  bool half_pixel = true;
  float scale = 1;
  int64_t sampling_ratio = 0;
  int64_t height = 0, width = 0, channels = 0;
  int64_t out_height = 1, out_width = 1;
  std::vector<int64_t> batch;  // of each region
};

// A point along one axis: neighbours and the upper one's weight. A point outside the map counts as zero.
template <typename T>
struct AxisPoint {
  int64_t low = 0, high = 0;
  T upper = 0;
  bool inside = false;
};

// The points of every bin along one axis, `points` a bin.
template <typename T>
struct AxisPoints {
  int64_t points = 0;
  std::vector<AxisPoint<T>> list;
};

template <typename T>
AxisPoint<T> PointAt(T x, int64_t dim) {
  AxisPoint<T> point;
  if (!(x >= -1 && x <= static_cast<T>(dim)) || dim == 0) return point;
  point.inside = true;
  x = std::max(x, T{0});
  point.low = static_cast<int64_t>(x);
  if (point.low >= dim - 1) {
    point.low = point.high = dim - 1;
  } else {
    point.high = point.low + 1;
    point.upper = x - static_cast<T>(point.low);
  }
  return point;
}

template <typename T>
StatusOr<AxisPoints<T>> PointsOf(const RoiPlan& plan, T start, T end, int64_t dim, int64_t bins) {
  const T offset = plan.half_pixel ? T{0.5} : T{0};
  start = start * static_cast<T>(plan.scale) - offset;
  end = end * static_cast<T>(plan.scale) - offset;
  T length = end - start;
  if (!plan.half_pixel) length = std::max(length, T{1});
  const T bin = length / static_cast<T>(bins);
  if (!std::isfinite(start) || !std::isfinite(bin)) return DataError("a region from {} to {}", start, end);
  if (plan.sampling_ratio <= 0 && std::ceil(bin) > static_cast<T>(kMostPoints)) {
    return Unsupported("a bin of {} elements", bin);
  }
  AxisPoints<T> out;
  out.points =
      plan.sampling_ratio > 0 ? plan.sampling_ratio : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(bin)));
  out.list.reserve(static_cast<size_t>(bins * out.points));
  for (int64_t b = 0; b < bins; ++b) {
    for (int64_t i = 0; i < out.points; ++i) {
      const T x = start + static_cast<T>(b) * bin + (static_cast<T>(i) + T{0.5}) * bin / static_cast<T>(out.points);
      out.list.push_back(PointAt(x, dim));
    }
  }
  return out;
}

template <typename T>
T PoolBin(const RoiPlan& plan, const T* map, const AxisPoint<T>* rows, int64_t row_count, const AxisPoint<T>* columns,
          int64_t column_count) {
  T sum = 0, largest = 0;
  bool first = true;
  for (const AxisPoint<T>* y = rows; y < rows + row_count; ++y) {
    for (const AxisPoint<T>* x = columns; x < columns + column_count; ++x) {
      T a = 0, b = 0, c = 0, d = 0;
      if (y->inside && x->inside) {
        const T *low = map + y->low * plan.width, *high = map + y->high * plan.width;
        a = (1 - y->upper) * (1 - x->upper) * low[x->low];
        b = (1 - y->upper) * x->upper * low[x->high];
        c = y->upper * (1 - x->upper) * high[x->low];
        d = y->upper * x->upper * high[x->high];
      }
      sum += a + b + c + d;
      const T top = std::max(std::max(a, b), std::max(c, d));
      largest = first ? top : std::max(largest, top);
      first = false;
    }
  }
  return plan.take_max ? largest : sum / static_cast<T>(std::max<int64_t>(row_count * column_count, 1));
}

StatusOr<RoiPlan> PlanRois(const KernelContext& context) {
  const Tensor &x = context.in(0), &rois = context.in(1), &batch = context.in(2);
  RETURN_IF_ERROR(SameTypes(context, {1}));
  if (x.rank() != 4) return DataError("the input has rank {}; [N, C, H, W] is needed", x.rank());
  if (rois.rank() != 2 || rois.dims()[1] != 4 || batch.dims() != Dims{rois.dims()[0]}) {
    return DataError("regions of {} with batch_indices of {}", ToString(rois.dims()), ToString(batch.dims()));
  }
  const Attributes& attributes = context.attributes();
  RoiPlan plan;
  const std::string mode = attributes.String("mode", "avg");
  if (mode != "avg" && mode != "max") return DataError("mode is '{}'", mode);
  plan.take_max = mode == "max";
  // Before opset 16 there was no shift by half an element.
  const std::string coordinates =
      attributes.String("coordinate_transformation_mode", context.version() < 16 ? "output_half_pixel" : "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    return DataError("coordinate_transformation_mode is '{}'", coordinates);
  }
  plan.half_pixel = coordinates == "half_pixel";
  plan.scale = attributes.Float("spatial_scale", 1);
  plan.sampling_ratio = attributes.Int("sampling_ratio", 0);
  if (plan.sampling_ratio < 0) return DataError("sampling_ratio is {}", plan.sampling_ratio);
  if (plan.sampling_ratio > kMostPoints) return Unsupported("a sampling_ratio of {}", plan.sampling_ratio);
  plan.channels = x.dims()[1];
  plan.height = x.dims()[2];
  plan.width = x.dims()[3];
  plan.out_height = attributes.Int("output_height", 1);
  plan.out_width = attributes.Int("output_width", 1);
  for (int64_t size : {plan.out_height, plan.out_width}) {
    if (size < 1) return DataError("an output of {} x {}", plan.out_height, plan.out_width);
    if (size > kMostPoints) return Unsupported("an output of {} x {}", plan.out_height, plan.out_width);
  }
  ASSIGN_OR_RETURN(plan.batch, IntsOf(batch));
  for (int64_t n : plan.batch) {
    if (n < 0 || n >= x.dims()[0]) return DataError("a region of sample {} of {}", n, x.dims()[0]);
  }
  return plan;
}

Status EvalRoiAlign(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const RoiPlan plan, PlanRois(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto rois, FloatInput<T>::Of(context, &context.in(1)));
    const auto regions = static_cast<int64_t>(plan.batch.size());
    ASSIGN_OR_RETURN(
        auto y, FloatOutput<T>::Make(context, 0, x.dtype(), {regions, plan.channels, plan.out_height, plan.out_width}));
    for (int64_t r = 0; r < regions && y.size() > 0; ++r) {
      const T* roi = rois.data() + 4 * r;
      ASSIGN_OR_RETURN(const auto columns, PointsOf<T>(plan, roi[0], roi[2], plan.width, plan.out_width));
      ASSIGN_OR_RETURN(const auto rows, PointsOf<T>(plan, roi[1], roi[3], plan.height, plan.out_height));
      const int64_t first = plan.batch[static_cast<size_t>(r)] * plan.channels;
      ParallelFor(plan.channels, [&](int64_t c) {
        const T* map = xs.data() + (first + c) * plan.height * plan.width;
        T* out = y.data() + (r * plan.channels + c) * plan.out_height * plan.out_width;
        for (int64_t h = 0; h < plan.out_height; ++h) {
          for (int64_t w = 0; w < plan.out_width; ++w) {
            *out++ = PoolBin(plan, map, rows.list.data() + h * rows.points, rows.points,
                             columns.list.data() + w * columns.points, columns.points);
          }
        }
      });
    }
    return y.Finish();
  });
}

}  // namespace

const OpDef& RoiAlignOp() {
  static const OpDef def = {.name = "RoiAlign",
                            .since = {10, 16, 22},
                            .min_inputs = 3,
                            .eval = EvalRoiAlign,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Regions of a feature map as grids of interpolated bins"};
  return def;
}

}  // namespace quant
