// LRN: y = x / (bias + alpha / size * sum of x * x over `size` neighbouring channels) ^ beta.
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

struct LrnPlan {
  int64_t channels, plane, before, after;  // neighbours on either side
  double alpha, beta, bias;                // alpha already over size
};

constexpr int64_t kColumns = 1024;

// Columns [begin, begin + count) of channel c of an image.
template <typename T>
void LrnRow(const LrnPlan& plan, const T* image, int64_t c, int64_t begin, int64_t count, double* sums, T* out) {
  std::fill_n(sums, count, 0.0);
  const int64_t first = std::max<int64_t>(0, c - plan.before), last = std::min(plan.channels - 1, c + plan.after);
  for (int64_t other = first; other <= last; ++other) {
    const T* row = image + other * plan.plane + begin;
    for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(row[i]) * row[i];
  }
  const T* in = image + c * plan.plane + begin;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(in[i] * std::pow(plan.bias + plan.alpha * sums[i], -plan.beta));
  }
}

Status EvalLrn(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 2) return DataError("the input has rank {}; [N, C, ...] is needed", x.rank());
  const Attributes& attributes = context.attributes();
  const int64_t size = attributes.Int("size", 0), channels = x.dims()[1];
  if (size < 1) return DataError("size is {}", size);
  const LrnPlan plan{channels,
                     *CheckedProduct(std::span(x.dims()).subspan(2)),
                     std::min((size - 1) / 2, channels),
                     std::min(size / 2, channels),
                     static_cast<double>(attributes.Float("alpha", 0.0001F)) / static_cast<double>(size),
                     attributes.Float("beta", 0.75F),
                     attributes.Float("bias", 1)};
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    if (x.size() == 0) return y.Finish();
    const int64_t pieces = CeilDiv(plan.plane, kColumns);
    ScratchPool scratch(context, kColumns * static_cast<int64_t>(sizeof(double)));
    ParallelFor(x.dims()[0] * channels * pieces, [&](int64_t item) {
      auto sums = scratch.Borrow();
      const int64_t begin = item % pieces * kColumns, row = item / pieces;
      LrnRow<T>(plan, xs.data() + row / channels * channels * plan.plane, row % channels, begin,
                std::min(kColumns, plan.plane - begin), sums.as<double>(), y.data() + row * plan.plane + begin);
    });
    return y.Finish();
  });
}

}  // namespace

const OpDef& LRNOp() {
  static const OpDef def = {
      .name = "LRN",
      .since = {1, 13},
      .min_inputs = 1,
      .eval = EvalLrn,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .summary = "Division by the energy of neighbouring channels",
  };
  return def;
}

}  // namespace quant
