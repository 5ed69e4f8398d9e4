// Hardmax: 1 at the first largest element along an axis, 0 elsewhere. NaN counts as the largest.
#include <cmath>

#include "libquant/base/parallel.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/softmax_axis.h"

namespace quant {
namespace {

Status EvalHardmax(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const AxisSplit split, SoftmaxAxes(context));
  return WithFloat(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), x.dims()));
    if (x.size() == 0) return OkStatus();
    ParallelFor(split.outer, [&](int64_t o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const int64_t base = o * split.length * split.inner + i;
        const T* in = x.data<T>().data() + base;
        T* to = out->template mutable_data<T>().data() + base;
        int64_t best = 0;
        for (int64_t k = 0; k < split.length; ++k) {
          to[k * split.inner] = static_cast<T>(0);
          const W v = static_cast<W>(in[k * split.inner]), top = static_cast<W>(in[best * split.inner]);
          if (v > top || (std::isnan(v) && !std::isnan(top))) best = k;
        }
        to[best * split.inner] = static_cast<T>(1);
      }
    });
    return OkStatus();
  });
}

}  // namespace

const OpDef& HardmaxOp() {
  static const OpDef def = {.name = "Hardmax",
                            .since = {1, 11, 13},
                            .eval = EvalHardmax,
                            .role = FloatOnly{},
                            .exactness = Exactness::kExact,
                            .summary = "1 at the largest element along an axis, else 0"};
  return def;
}

}  // namespace quant
