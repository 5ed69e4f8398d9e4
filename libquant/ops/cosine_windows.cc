// HannWindow, HammingWindow, BlackmanWindow: sums of cosines over a period N,
//   w[n] = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N),   N = size, or size - 1 for a symmetric one
// A symmetric window of one element, for which that has no value, is 1.
#include <cmath>
#include <numbers>

#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

struct Cosines {
  double a0, a1, a2;
};
constexpr Cosines kHann = {0.5, 0.5, 0};
constexpr Cosines kHamming = {25.0 / 46, 21.0 / 46, 0};
constexpr Cosines kBlackman = {0.42, 0.5, 0.08};

double ValueAt(const Cosines& a, int64_t n, int64_t period) {
  if (period == 0) return 1;
  const double angle = 2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(period);
  return a.a0 - a.a1 * std::cos(angle) + a.a2 * std::cos(2 * angle);
}

Status EvalWindow(KernelContext& context, const Cosines& cosines) {
  ASSIGN_OR_RETURN(const auto sizes, IntsOf(context.in(0)));
  if (sizes.size() != 1 || sizes[0] < 0) return DataError("the size is {}", ToString(sizes));
  const int64_t size = sizes[0];
  const int64_t period = context.attributes().Int("periodic", 1) != 0 ? size : size - 1;
  const auto dtype = DTypeFromNumber(static_cast<int32_t>(context.attributes().Int("output_datatype", 1)));
  return WithNumber(dtype, [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, dtype, {size}));
    int64_t n = 0;
    for (T& v : y->template mutable_data<T>()) v = static_cast<T>(ValueAt(cosines, n++, period));
    return OkStatus();
  });
}

Status EvalHann(KernelContext& context) { return EvalWindow(context, kHann); }
Status EvalHamming(KernelContext& context) { return EvalWindow(context, kHamming); }
Status EvalBlackman(KernelContext& context) { return EvalWindow(context, kBlackman); }

OpDef WindowOp(std::string_view name, Status (*eval)(KernelContext&), std::string_view summary) {
  return {.name = name,
          .since = {17},
          .min_inputs = 1,
          .eval = eval,
          .role = Control{},
          .exactness = Exactness::kTranscendental,
          .summary = summary};
}

}  // namespace

const OpDef& BlackmanWindowOp() {
  static const OpDef def = WindowOp("BlackmanWindow", EvalBlackman, "Blackman's window of a size");
  return def;
}

const OpDef& HammingWindowOp() {
  static const OpDef def = WindowOp("HammingWindow", EvalHamming, "Hamming's window of a size");
  return def;
}

const OpDef& HannWindowOp() {
  static const OpDef def = WindowOp("HannWindow", EvalHann, "Hann's window of a size");
  return def;
}

}  // namespace quant
