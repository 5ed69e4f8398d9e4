// Conv: y[n, m, o] = bias[m] + sum over c, k of w[m, c, k] * x[n, c, o * stride - pad + k * dilation].
#include <algorithm>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/conv_shift.h"
#include "libquant/ops/conv_weights.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

// Elements of a panel of windows: small enough for a second-level cache.
constexpr int64_t kPanelElements = 256 * 1024;
constexpr int64_t kMaxColumns = 512;
constexpr int64_t kMinColumns = 96;
constexpr int64_t kFilterTile = 240;
// With fewer tiles than this, filters are split further so that threads have work.
constexpr int64_t kWantedTiles = 16;
constexpr int64_t kMinFilterTile = 48;
constexpr int64_t kRowMultiple = 48;  // of the matrix kernel's rows, as packed rows ask

struct Tiles {
  int64_t columns, filters;
  int64_t column_count, filter_count;
};

// Depends on the shapes alone, never on the number of threads.
Tiles ChooseTiles(const ConvPlan& plan) {
  Tiles t;
  t.columns = TileSize(plan.out_plane, std::clamp(kPanelElements / plan.reduction(), kMinColumns, kMaxColumns));
  t.column_count = CeilDiv(plan.out_plane, t.columns);
  const int64_t others = std::max<int64_t>(plan.batch * plan.groups * t.column_count, 1);
  const int64_t even = CeilDiv(plan.out_channels, CeilDiv(kWantedTiles, others));
  t.filters = TileSize(plan.out_channels, std::clamp(even, kMinFilterTile, kFilterTile), kRowMultiple);
  t.filter_count = CeilDiv(plan.out_channels, t.filters);
  return t;
}

template <typename T>
void ConvByProduct(const KernelContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias,
                   const Tail& tail, T* y) {
  const Tiles tiles = ChooseTiles(plan);
  const int64_t k = plan.reduction();
  std::shared_ptr<const ConvWeights> weights;
  if constexpr (std::is_same_v<T, float>) {
    if (context.is_constant(1)) weights = PackConvWeights(context, plan, w);
  }
  const bool direct = plan.is_pointwise();
  ScratchPool scratch(context, direct ? 0 : k * tiles.columns * static_cast<int64_t>(sizeof(T)));
  ParallelFor(plan.batch * plan.groups * tiles.column_count * tiles.filter_count, [&](int64_t item) {
    const int64_t first = item % tiles.filter_count * tiles.filters;
    const int64_t begin = item / tiles.filter_count % tiles.column_count * tiles.columns;
    const int64_t image_group = item / tiles.filter_count / tiles.column_count;  // n * groups + g
    const int64_t filters = std::min(tiles.filters, plan.out_channels - first);
    const int64_t columns = std::min(tiles.columns, plan.out_plane - begin);
    const int64_t filter = image_group % plan.groups * plan.out_channels + first;
    const T* group_x = x + image_group * plan.in_channels * plan.in_plane;
    auto lease = scratch.Borrow();
    MatrixRef<T> panel{group_x + begin, plan.in_plane};
    if (!direct) {
      FillPanel(plan, group_x, begin, begin + columns, T{0}, lease.template as<T>());
      panel = {lease.template as<T>(), columns};
    }
    T* out = y + (image_group * plan.out_channels + first) * plan.out_plane + begin;
    for (int64_t m = 0; m < filters && bias != nullptr; ++m) {
      std::fill_n(out + m * plan.out_plane, columns, bias[filter + m]);
    }
    const PackedRows* packed = nullptr;
    if (weights != nullptr) packed = &(*weights)[static_cast<size_t>(image_group % plan.groups)];
    GemmTile<T>({filters, columns, k},
                {{w + filter * k, k}, panel, out, plan.out_plane, bias != nullptr, packed, first});
    if constexpr (std::is_same_v<T, float>) {
      for (int64_t m = 0; m < filters && tail; ++m) {
        tail(out + m * plan.out_plane, out + m * plan.out_plane - y, columns);
      }
    }
  });
}

}  // namespace

Status EvalConv(KernelContext& context) {
  const Tensor &x = context.in(0), &w = context.in(1);
  const Tensor* bias = context.input(2);
  RETURN_IF_ERROR(SameTypes(context, {1, 2}));
  ASSIGN_OR_RETURN(const ConvPlan plan, PlanConv(context, x, w, bias));
  const Tail tail = x.dtype() == DType::kFloat ? context.TailFor(plan.out_dims) : Tail();
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto ws, FloatInput<T>::Of(context, &w));
    ASSIGN_OR_RETURN(const auto bs, FloatInput<T>::Of(context, bias));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), plan.out_dims));
    if (plan.is_depthwise()) {
      DepthwiseConv<T>(context, plan, xs.data(), ws.data(), bs.data(), tail, y.data());
    } else if (std::is_same_v<T, float> && !plan.is_pointwise() && SuitsConvByShift(plan)) {
      if constexpr (std::is_same_v<T, float>)
        ConvByShift(context, plan, xs.data(), ws.data(), bs.data(), tail, y.data());
    } else {
      ConvByProduct<T>(context, plan, xs.data(), ws.data(), bs.data(), tail, y.data());
    }
    return y.Finish();
  });
}

const OpDef& ConvOp() {
  static const OpDef def = {
      .name = "Conv",
      .since = {1, 11, 22},
      .min_inputs = 2,
      .eval = EvalConv,
      .role = Weighted{0, 1, 2, [](const Attributes&, int64_t) -> int64_t { return 0; }, nullptr},
      .exactness = Exactness::kRounding,
      .summary = "Convolution over one to three spatial axes, with groups, dilations and auto_pad",
      .applies_tail = true,
  };
  return def;
}

}  // namespace quant
