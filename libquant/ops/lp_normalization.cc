// LpNormalization: x over its norm along an axis, the sum of magnitudes (p = 1) or the root of the sum of squares
// (p = 2); 0 where the norm is 0. The norm is made in float64.
#include <cmath>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

Status EvalLpNormalization(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  const int64_t p = context.attributes().Int("p", 2);
  if (p != 1 && p != 2) return DataError("p is {}", p);
  const AxisSplit split = SplitAt(x.dims(), axis);
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    if (x.size() == 0) return out.Finish();
    ParallelFor(split.outer, [&](int64_t o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const T* from = in.data() + o * split.length * split.inner + i;
        T* to = out.data() + o * split.length * split.inner + i;
        double sum = 0;
        for (int64_t k = 0; k < split.length; ++k) {
          const double v = from[k * split.inner];
          sum += p == 1 ? std::abs(v) : v * v;
        }
        const double norm = p == 1 ? sum : std::sqrt(sum);
        for (int64_t k = 0; k < split.length; ++k) {
          to[k * split.inner] = norm == 0 ? T{0} : static_cast<T>(from[k * split.inner] / norm);
        }
      }
    });
    return out.Finish();
  });
}

}  // namespace

const OpDef& LpNormalizationOp() {
  static const OpDef def = {.name = "LpNormalization",
                            .since = {1, 22},
                            .eval = EvalLpNormalization,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Elements over their norm along an axis"};
  return def;
}

}  // namespace quant
