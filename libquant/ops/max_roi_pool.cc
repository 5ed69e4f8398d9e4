// MaxRoiPool: the maximum over each bin of each region of a feature map.
//   X [N, C, H, W], rois [R, 5] as sample x1 y1 x2 y2, Y [R, C, pooled_shape...]
// Corners are scaled and rounded to elements, both belonging to the region; bins may share elements. A bin outside the
// map is 0.
#include <algorithm>
#include <cmath>

#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

struct Span {
  int64_t begin, end;
};

// The elements of each bin along one axis, inside [0, dim).
template <typename T>
StatusOr<std::vector<Span>> BinsOf(T first, T last, T scale, int64_t dim, int64_t bins) {
  const T low = std::round(first * scale), high = std::round(last * scale);
  // Beyond this, elements and floats part.
  constexpr T kLimit = 1 << 24;
  if (!(std::abs(low) <= kLimit && std::abs(high) <= kLimit)) return DataError("a region from {} to {}", first, last);
  const auto start = static_cast<int64_t>(low);
  const T length = std::max(high - low + 1, T{1});
  const T bin = length / static_cast<T>(bins);
  std::vector<Span> out;
  for (int64_t b = 0; b < bins; ++b) {
    const auto begin = start + static_cast<int64_t>(std::floor(static_cast<T>(b) * bin));
    const auto end = start + static_cast<int64_t>(std::ceil(static_cast<T>(b + 1) * bin));
    out.push_back({std::clamp<int64_t>(begin, 0, dim), std::clamp<int64_t>(end, 0, dim)});
  }
  return out;
}

template <typename T>
T MaxOf(const T* map, int64_t width, Span rows, Span columns) {
  if (rows.begin >= rows.end || columns.begin >= columns.end) return 0;
  T best = map[rows.begin * width + columns.begin];
  for (int64_t h = rows.begin; h < rows.end; ++h) {
    for (int64_t w = columns.begin; w < columns.end; ++w) best = std::max(best, map[h * width + w]);
  }
  return best;
}

Status EvalMaxRoiPool(KernelContext& context) {
  const Tensor &x = context.in(0), &rois = context.in(1);
  RETURN_IF_ERROR(SameTypes(context, {1}));
  if (x.rank() != 4) return DataError("the input has rank {}; [N, C, H, W] is needed", x.rank());
  if (rois.rank() != 2 || rois.dims()[1] != 5) return DataError("regions of {}", ToString(rois.dims()));
  const std::vector<int64_t> pooled = context.attributes().Ints("pooled_shape");
  const auto bad = [](int64_t size) { return size < 1 || size > (1 << 14); };
  if (pooled.size() != 2 || bad(pooled[0]) || bad(pooled[1])) {
    return DataError("pooled_shape is {}; two sizes are needed", ToString(pooled));
  }
  const int64_t channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3], regions = rois.dims()[0];
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    const T scale = context.attributes().Float("spatial_scale", 1);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto corners, FloatInput<T>::Of(context, &rois));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), {regions, channels, pooled[0], pooled[1]}));
    for (int64_t r = 0; r < regions && y.size() > 0; ++r) {
      const T* roi = corners.data() + 5 * r;
      if (!(roi[0] >= 0 && roi[0] < static_cast<T>(x.dims()[0]))) {
        return DataError("a region of sample {} of {}", roi[0], x.dims()[0]);
      }
      ASSIGN_OR_RETURN(const auto columns, BinsOf<T>(roi[1], roi[3], scale, width, pooled[1]));
      ASSIGN_OR_RETURN(const auto rows, BinsOf<T>(roi[2], roi[4], scale, height, pooled[0]));
      const auto sample = static_cast<int64_t>(roi[0]);
      ParallelFor(channels, [&](int64_t c) {
        const T* map = xs.data() + (sample * channels + c) * height * width;
        T* out = y.data() + (r * channels + c) * pooled[0] * pooled[1];
        for (const Span& row : rows) {
          for (const Span& column : columns) *out++ = MaxOf(map, width, row, column);
        }
      });
    }
    return y.Finish();
  });
}

}  // namespace

const OpDef& MaxRoiPoolOp() {
  static const OpDef def = {.name = "MaxRoiPool",
                            .since = {1, 22},
                            .min_inputs = 2,
                            .eval = EvalMaxRoiPool,
                            .role = FloatOnly{},
                            .exactness = Exactness::kExact,
                            .summary = "Largest element of each bin of each region"};
  return def;
}

}  // namespace quant
