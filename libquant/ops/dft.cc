// DFT: the discrete Fourier transform along one axis; the last axis holds a number's real and imaginary part, or the
// real one alone. `onesided` leaves out the half of a real signal's spectrum that mirrors the other: going forward it
// is not written, going back it is made up again and the result is real.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/fourier.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

struct DftPlan {
  bool inverse = false, onesided = false;
  int64_t length = 0;    // of the transform
  int64_t in_count = 0;  // elements of the axis
  int64_t out_count = 0;
  int64_t in_parts = 1, out_parts = 2;  // 2: complex
  int64_t inner = 1, lines = 0;
  Dims out;
};

// The axis: an attribute before opset 20, an input since.
StatusOr<int64_t> AxisOf(const KernelContext& context, int64_t rank) {
  int64_t axis = context.version() < 20 ? context.attributes().Int("axis", 1) : -2;
  if (context.version() >= 20 && context.input(2) != nullptr) {
    ASSIGN_OR_RETURN(const auto values, IntsOf(*context.input(2)));
    if (values.size() != 1) return DataError("the axis is {}", Describe(*context.input(2)));
    axis = values[0];
  }
  ASSIGN_OR_RETURN(axis, NormalizeAxis(axis, rank));
  if (axis == rank - 1) return DataError("axis {} is the one of real and imaginary parts", axis);
  return axis;
}

StatusOr<DftPlan> PlanDft(const KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 2) return DataError("the input is {}", Describe(x));
  DftPlan plan;
  plan.inverse = context.attributes().Int("inverse", 0) != 0;
  plan.onesided = context.attributes().Int("onesided", 0) != 0;
  plan.in_parts = x.dims().back();
  if (plan.in_parts != 1 && plan.in_parts != 2) return DataError("the input is {}", Describe(x));
  if (plan.onesided && plan.in_parts != (plan.inverse ? 2 : 1)) {
    return DataError("a onesided transform of {}", Describe(x));
  }
  ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context, x.rank()));
  const auto a = static_cast<size_t>(axis);
  plan.in_count = x.dims()[a];
  plan.length = plan.onesided && plan.inverse ? 2 * (plan.in_count - 1) : plan.in_count;
  if (const Tensor* length = context.input(1)) {
    ASSIGN_OR_RETURN(const auto values, IntsOf(*length));
    if (values.size() != 1) return DataError("dft_length is {}", Describe(*length));
    plan.length = values[0];
  }
  if (plan.length < 1) return DataError("a transform of length {}", plan.length);
  if (plan.length > Fourier::kLongest) return Unsupported("a transform of length {}", plan.length);
  plan.out_count = plan.onesided && !plan.inverse ? plan.length / 2 + 1 : plan.length;
  plan.out_parts = plan.onesided && plan.inverse ? 1 : 2;
  plan.out = x.dims();
  plan.out[a] = plan.out_count;
  plan.out.back() = plan.out_parts;
  const auto size = CheckedProduct(plan.out);
  if (!size) return DataError("the output {} overflows", ToString(plan.out));
  if (*size == 0) return plan;
  plan.inner = ProductOf(plan.out, a + 1, plan.out.size() - 1);
  plan.lines = ProductOf(plan.out, 0, a) * plan.inner;
  return plan;
}

// Line l of the input, cut or filled up with zeros to the transform's length, or mirrored.
template <typename T>
void LoadLine(const DftPlan& plan, const T* x, int64_t l, Complex* line) {
  x += (l / plan.inner * plan.in_count * plan.inner + l % plan.inner) * plan.in_parts;
  const bool mirror = plan.onesided && plan.inverse;
  const int64_t count = std::min(plan.in_count, mirror ? plan.length / 2 + 1 : plan.length);
  for (int64_t k = 0; k < count; ++k) {
    const T* v = x + k * plan.inner * plan.in_parts;
    line[k] = {static_cast<double>(v[0]), plan.in_parts == 2 ? static_cast<double>(v[1]) : 0.0};
  }
  std::fill(line + count, line + plan.length, Complex());
  if (!mirror) return;
  // The first and, for an even length, the middle one mirror themselves: they are real.
  line[0].im = 0;
  if (plan.length % 2 == 0) line[plan.length / 2].im = 0;
  for (int64_t k = 1; 2 * k < plan.length; ++k) line[plan.length - k] = {line[k].re, -line[k].im};
}

template <typename T>
void StoreLine(const DftPlan& plan, const Complex* line, int64_t l, T* y) {
  y += (l / plan.inner * plan.out_count * plan.inner + l % plan.inner) * plan.out_parts;
  for (int64_t k = 0; k < plan.out_count; ++k) {
    T* v = y + k * plan.inner * plan.out_parts;
    v[0] = static_cast<T>(line[k].re);
    if (plan.out_parts == 2) v[1] = static_cast<T>(line[k].im);
  }
}

Status EvalDft(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const DftPlan plan, PlanDft(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), plan.out));
    if (plan.lines == 0) return y.Finish();
    const Fourier fourier(plan.length);
    ScratchPool scratch(context, fourier.work_size() * static_cast<int64_t>(sizeof(Complex)));
    const int64_t piece = std::max<int64_t>(1, 4096 / plan.length);
    ParallelFor(CeilDiv(plan.lines, piece), [&](int64_t job) {
      auto lease = scratch.Borrow();
      Complex* work = lease.template as<Complex>();
      for (int64_t l = job * piece; l < std::min(plan.lines, (job + 1) * piece); ++l) {
        LoadLine(plan, xs.data(), l, work);
        plan.inverse ? fourier.Inverse(work) : fourier.Forward(work);
        StoreLine(plan, work, l, y.data());
      }
    });
    return y.Finish();
  });
}

}  // namespace

const OpDef& DFTOp() {
  static const OpDef def = {.name = "DFT",
                            .since = {17, 20},
                            .min_inputs = 1,
                            .eval = EvalDft,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "Discrete Fourier transform along an axis, and back"};
  return def;
}

}  // namespace quant
