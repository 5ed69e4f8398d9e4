// DeformConv: a convolution whose taps read the input where offsets move them, interpolated, zero outside.
//   X [N, C, D...], W [M, C / group, k...], offset [N, offset_group * K * r, O...], B [M], mask [N, offset_group * K,
//   O...], Y [N, M, O...]; K taps, r spatial axes (1 to 3). A tile of output places at a time, as Conv's columns:
//   columns[c * K + k, place] = mask[k, place] * X[c] at (start + k * dilation + offset[k, :, place])
#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/sample_taps.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/window.h"

namespace quant {
namespace {

struct DeformPlan {
  std::array<WindowAxis, 3> axes;
  Dims out;
  int64_t rank = 0, batch = 0, channels = 0, maps = 0, group = 1, offset_group = 1;
  int64_t taps = 1, places = 1, plane = 1;
};

StatusOr<DeformPlan> PlanDeformConv(const KernelContext& context) {
  const Tensor &x = context.in(0), &w = context.in(1), &offset = context.in(2);
  RETURN_IF_ERROR(SameTypes(context, {1, 2, 3, 4}));
  if (x.rank() < 3 || w.rank() != x.rank() || offset.rank() != x.rank()) {
    return DataError("an input of {} with weights of {}", ToString(x.dims()), ToString(w.dims()));
  }
  DeformPlan plan;
  plan.rank = x.rank() - 2;
  plan.group = context.attributes().Int("group", 1);
  plan.offset_group = context.attributes().Int("offset_group", 1);
  plan.batch = x.dims()[0];
  plan.channels = x.dims()[1];
  plan.maps = w.dims()[0];
  if (plan.group < 1 || plan.offset_group < 1 || plan.channels % plan.group != 0 || plan.maps % plan.group != 0 ||
      plan.channels % plan.offset_group != 0 || w.dims()[1] != plan.channels / plan.group) {
    return DataError("an input of {} with weights of {}, group {} and offset_group {}", ToString(x.dims()),
                     ToString(w.dims()), plan.group, plan.offset_group);
  }
  ASSIGN_OR_RETURN(const Window window, ReadWindow(context.attributes(), WindowKind::kConv,
                                                   std::span(x.dims()).subspan(2), std::span(w.dims()).subspan(2)));
  ASSIGN_OR_RETURN(plan.axes, ThreeAxes(window));
  plan.out = WithSpatial(plan.batch, plan.maps, window);
  const auto taps = CheckedProduct(std::span(w.dims()).subspan(2));
  const auto places = CheckedProduct(WithSpatial(1, 1, window));
  if (!taps || !places || !CheckedProduct(plan.out)) return DataError("the output {} overflows", ToString(plan.out));
  plan.taps = *taps;
  plan.places = *places;
  plan.plane = plan.axes[0].in * plan.axes[1].in * plan.axes[2].in;
  const auto moved = CheckedMul(plan.offset_group, plan.taps);
  const auto coordinates = moved ? CheckedMul(*moved, plan.rank) : std::nullopt;
  if (!coordinates || offset.dims() != WithSpatial(plan.batch, *coordinates, window)) {
    return DataError("an offset of {} for an output of {}", ToString(offset.dims()), ToString(plan.out));
  }
  const Tensor *bias = context.input(3), *mask = context.input(4);
  if (bias != nullptr && bias->dims() != Dims{plan.maps}) return DataError("a bias of {}", ToString(bias->dims()));
  if (mask != nullptr && mask->dims() != WithSpatial(plan.batch, *moved, window)) {
    return DataError("a mask of {} for an output of {}", ToString(mask->dims()), ToString(plan.out));
  }
  return plan;
}

template <typename T>
struct DeformInputs {
  const T *x, *w, *offset, *bias, *mask;  // bias and mask may be null
};

// What tap `tap` reads for `place`, by the offsets of one sample and offset group.
template <typename T>
PlaneTaps<T> TapsAt(const DeformPlan& plan, const T* offset, int64_t tap, int64_t place) {
  const auto& [d, h, w] = plan.axes;
  const std::array<int64_t, 3> base = {
      d.start(place / w.out / h.out) + tap / w.kernel / h.kernel * d.dilation,
      h.start(place / w.out % h.out) + tap / w.kernel % h.kernel * h.dilation,
      w.start(place % w.out) + tap % w.kernel * w.dilation,
  };
  std::array<Taps<T>, 3> taps;
  for (int64_t a = 0; a < 3; ++a) {
    const auto at = static_cast<size_t>(a);
    const int64_t axis = a - (3 - plan.rank);
    const T move = axis < 0 ? T{0} : offset[(tap * plan.rank + axis) * plan.places + place];
    taps[at] = LinearTaps(static_cast<T>(base[at]) + move, plan.axes[at].in);
  }
  return PlaneTaps<T>(taps, {d.in, h.in, w.in});
}

// The columns of places [begin, begin + count) for the channels of convolution group g.
template <typename T>
void FillColumns(const DeformPlan& plan, const DeformInputs<T>& in, int64_t n, int64_t g, int64_t begin, int64_t count,
                 T* columns) {
  const int64_t channels = plan.channels / plan.group, per_offset = plan.channels / plan.offset_group;
  for (int64_t c = 0; c < channels;) {
    const int64_t channel = g * channels + c, o = channel / per_offset;
    const int64_t run = std::min(channels - c, (o + 1) * per_offset - channel);  // channels that share offsets
    const int64_t first_tap = (n * plan.offset_group + o) * plan.taps;
    for (int64_t k = 0; k < plan.taps; ++k) {
      for (int64_t i = 0; i < count; ++i) {
        const auto taps = TapsAt(plan, in.offset + first_tap * plan.rank * plan.places, k, begin + i);
        const T factor = in.mask == nullptr ? T{1} : in.mask[(first_tap + k) * plan.places + begin + i];
        for (int64_t j = 0; j < run; ++j) {
          const T* map = in.x + (n * plan.channels + channel + j) * plan.plane;
          T sum = 0;
          for (size_t t = 0; t < static_cast<size_t>(taps.count); ++t) sum += taps.weight[t] * map[taps.offset[t]];
          columns[((c + j) * plan.taps + k) * count + i] = sum * factor;
        }
      }
    }
    c += run;
  }
}

template <typename T>
void Convolve(const KernelContext& context, const DeformPlan& plan, const DeformInputs<T>& in, T* y) {
  const int64_t tile = TileSize(plan.places, 128), tiles = CeilDiv(plan.places, tile);
  const int64_t depth = plan.channels / plan.group * plan.taps, maps = plan.maps / plan.group;
  ScratchPool scratch(context, depth * tile * static_cast<int64_t>(sizeof(T)));
  ParallelFor(plan.batch * plan.group * tiles, [&](int64_t job) {
    const int64_t n = job / tiles / plan.group, g = job / tiles % plan.group, begin = job % tiles * tile;
    const int64_t count = std::min(tile, plan.places - begin);
    auto lease = scratch.Borrow();
    T* columns = lease.template as<T>();
    FillColumns(plan, in, n, g, begin, count, columns);
    T* out = y + (n * plan.maps + g * maps) * plan.places + begin;
    for (int64_t m = 0; m < maps; ++m) {
      std::fill_n(out + m * plan.places, count, in.bias == nullptr ? T{0} : in.bias[g * maps + m]);
    }
    if (depth > 0) {
      GemmTile<T>({maps, count, depth}, {{in.w + g * maps * depth, depth}, {columns, count}, out, plan.places, true});
    }
  });
}

Status EvalDeformConv(KernelContext& context) {
  ASSIGN_OR_RETURN(const DeformPlan plan, PlanDeformConv(context));
  const DType dtype = context.in(0).dtype();
  return WithComputeType(dtype, [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto x, FloatInput<T>::Of(context, context.input(0)));
    ASSIGN_OR_RETURN(const auto w, FloatInput<T>::Of(context, context.input(1)));
    ASSIGN_OR_RETURN(const auto offset, FloatInput<T>::Of(context, context.input(2)));
    ASSIGN_OR_RETURN(const auto bias, FloatInput<T>::Of(context, context.input(3)));
    ASSIGN_OR_RETURN(const auto mask, FloatInput<T>::Of(context, context.input(4)));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, dtype, plan.out));
    if (y.size() == 0) return OkStatus();
    Convolve<T>(context, plan, {x.data(), w.data(), offset.data(), bias.data(), mask.data()}, y.data());
    return y.Finish();
  });
}

}  // namespace

const OpDef& DeformConvOp() {
  static const OpDef def = {.name = "DeformConv",
                            .since = {19, 22},
                            .min_inputs = 3,
                            .eval = EvalDeformConv,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "A convolution whose taps are moved by offsets"};
  return def;
}

}  // namespace quant
