// Col2Im: columns of blocks added up into the image that they were cut from, Im2Col's counterpart.
//   input [N, C * product(block_shape), blocks], Y [N, C, image_shape...]
#include <algorithm>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/window.h"

namespace quant {
namespace {

struct ColumnPlan {
  std::array<WindowAxis, 3> axes;  // over the image
  Dims out;
  int64_t planes = 0, taps = 1, blocks = 1, plane = 1;
};

StatusOr<ColumnPlan> PlanColumns(const KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() != 3) return DataError("the input is {}; [N, C * block, blocks] is needed", Describe(x));
  ASSIGN_OR_RETURN(const std::vector<int64_t> image, IntsOf(context.in(1)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> block, IntsOf(context.in(2)));
  const auto positive = [](int64_t v) { return v > 0; };
  if (block.size() != image.size() || !std::all_of(image.begin(), image.end(), positive) ||
      !std::all_of(block.begin(), block.end(), positive)) {
    return DataError("an image of {} with blocks of {}", ToString(image), ToString(block));
  }
  ASSIGN_OR_RETURN(const Window window, ReadWindow(context.attributes(), WindowKind::kConv, image, block));
  ColumnPlan plan;
  ASSIGN_OR_RETURN(plan.axes, ThreeAxes(window));
  const auto taps = CheckedProduct(block), blocks = CheckedProduct(WithSpatial(1, 1, window));
  if (!taps || !blocks || x.dims()[1] % *taps != 0 || x.dims()[2] != *blocks) {
    return DataError("an input of {} for an image of {} and blocks of {}", ToString(x.dims()), ToString(image),
                     ToString(block));
  }
  plan.taps = *taps;
  plan.blocks = *blocks;
  const int64_t channels = x.dims()[1] / plan.taps;
  plan.out = {x.dims()[0], channels};
  plan.out.insert(plan.out.end(), image.begin(), image.end());
  if (!CheckedProduct(plan.out)) return DataError("the output {} overflows", ToString(plan.out));
  plan.planes = x.dims()[0] * channels;
  plan.plane = plan.planes == 0 ? 0 : ProductOf(plan.out, 2, plan.out.size());
  return plan;
}

// Integers wrap.
template <typename T>
void AddColumns(const ColumnPlan& plan, const T* columns, T* image) {
  using Sum = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  const auto& [d, h, w] = plan.axes;
  std::fill_n(image, plan.plane, T{0});
  for (int64_t tap = 0; tap < plan.taps; ++tap) {
    const int64_t kw = tap % w.kernel, kh = tap / w.kernel % h.kernel, kd = tap / w.kernel / h.kernel;
    for (int64_t od = 0; od < d.out; ++od) {
      for (int64_t oh = 0; oh < h.out; ++oh, columns += w.out) {
        const int64_t id = d.start(od) + kd * d.dilation, ih = h.start(oh) + kh * h.dilation;
        if (id < 0 || id >= d.in || ih < 0 || ih >= h.in) continue;
        T* row = image + (id * h.in + ih) * w.in;
        for (int64_t ow = 0; ow < w.out; ++ow) {
          const int64_t iw = w.start(ow) + kw * w.dilation;
          if (iw < 0 || iw >= w.in) continue;
          row[iw] = static_cast<T>(static_cast<Sum>(static_cast<Sum>(row[iw]) + static_cast<Sum>(columns[ow])));
        }
      }
    }
  }
}

template <typename T>
void AddAll(const ColumnPlan& plan, const T* columns, T* images) {
  ParallelFor(plan.planes,
              [&](int64_t p) { AddColumns(plan, columns + p * plan.taps * plan.blocks, images + p * plan.plane); });
}

Status EvalCol2Im(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const ColumnPlan plan, PlanColumns(context));
  if (InfoOf(x.dtype()).is_float) {
    return WithComputeType(x.dtype(), [&](auto zero) -> Status {
      using T = decltype(zero);
      ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
      ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), plan.out));
      AddAll(plan, xs.data(), y.data());
      return y.Finish();
    });
  }
  return WithType<int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t, uint16_t, uint8_t>(
      x.dtype(), [&](auto zero) -> Status {
        using T = decltype(zero);
        ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), plan.out));
        AddAll(plan, x.data<T>().data(), y->template mutable_data<T>().data());
        return OkStatus();
      });
}

}  // namespace

const OpDef& Col2ImOp() {
  static const OpDef def = {.name = "Col2Im",
                            .since = {18},
                            .min_inputs = 3,
                            .eval = EvalCol2Im,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Columns of blocks added up into an image"};
  return def;
}

}  // namespace quant
