// CumSum and CumProd: each element becomes the sum (product) of those up to it along an axis, itself left out when
// `exclusive`, from the end when `reverse`. float16 and bfloat16 are accumulated in float32, integers wrap.
#include <algorithm>
#include <type_traits>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

struct SumF {
  static constexpr int kIdentity = 0;
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct ProductF {
  static constexpr int kIdentity = 1;
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};

struct Accumulation {
  AxisSplit split;
  bool exclusive = false, reverse = false;
};

StatusOr<Accumulation> ReadAccumulation(const KernelContext& context) {
  const Tensor &x = context.in(0), &axis_input = context.in(1);
  if (axis_input.size() != 1 || axis_input.rank() > 1) return DataError("the axis is {}", Describe(axis_input));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntsOf(axis_input));
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(axes[0], x.rank()));
  return Accumulation{SplitAt(x.dims(), axis), context.attributes().Int("exclusive", 0) != 0,
                      context.attributes().Int("reverse", 0) != 0};
}

template <typename F, typename T>
void Accumulate(const Accumulation& a, const T* x, T* y) {
  const int64_t inner = a.split.inner, length = a.split.length;
  ParallelFor(a.split.outer, [&](int64_t o) {
    const T* in = x + o * length * inner;
    T* out = y + o * length * inner;
    for (int64_t step = 0; step < length; ++step) {
      const int64_t at = (a.reverse ? length - 1 - step : step) * inner;
      const int64_t before = a.reverse ? at + inner : at - inner;
      if (step == 0) {
        if (a.exclusive) {
          std::fill_n(out + at, inner, static_cast<T>(F::kIdentity));
        } else {
          std::copy_n(in + at, inner, out + at);
        }
        continue;
      }
      const T* next = in + (a.exclusive ? before : at);
      for (int64_t i = 0; i < inner; ++i) out[at + i] = F()(out[before + i], next[i]);
    }
  });
}

template <typename F>
Status EvalCumulative(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const Accumulation a, ReadAccumulation(context));
  if (InfoOf(x.dtype()).is_float) {
    return WithComputeType(x.dtype(), [&](auto zero) -> Status {
      using T = decltype(zero);
      ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
      ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
      Accumulate<F>(a, in.data(), out.data());
      return out.Finish();
    });
  }
  return WithType<int32_t, int64_t, uint32_t, uint64_t>(x.dtype(), [&](auto zero) -> Status {
    using U = std::make_unsigned_t<decltype(zero)>;
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), x.dims()));
    Accumulate<F>(a, x.data<U>().data(), out->mutable_data<U>().data());
    return OkStatus();
  });
}

}  // namespace

const OpDef& CumSumOp() {
  static const OpDef def = {.name = "CumSum",
                            .since = {11, 14},
                            .min_inputs = 2,
                            .eval = EvalCumulative<SumF>,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Sums up to each element of an axis"};
  return def;
}
const OpDef& CumProdOp() {
  static const OpDef def = {.name = "CumProd",
                            .since = {26},
                            .min_inputs = 2,
                            .eval = EvalCumulative<ProductF>,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Products up to each element of an axis"};
  return def;
}

}  // namespace quant
