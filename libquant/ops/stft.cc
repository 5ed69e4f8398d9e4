// STFT: Fourier transforms of frames of a signal, each frame_step after the one before and weighted by a window.
//   signal [B, L, 1 or 2], window [frame], Y [B, frames, bins, 2]; frames = (L - frame) / frame_step + 1,
//   bins = frame / 2 + 1 when onesided, else frame
#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/fourier.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

struct StftPlan {
  int64_t batch = 0, length = 0, parts = 1, step = 1, frame = 0, frames = 0, bins = 0;
};

StatusOr<int64_t> OneInt(const Tensor& tensor) {
  ASSIGN_OR_RETURN(const auto values, IntsOf(tensor));
  if (values.size() != 1) return DataError("{} where one integer is wanted", Describe(tensor));
  return values[0];
}

StatusOr<StftPlan> PlanStft(const KernelContext& context) {
  const Tensor& x = context.in(0);
  RETURN_IF_ERROR(SameTypes(context, {2}));
  const bool shaped = x.rank() == 3 && (x.dims()[2] == 1 || x.dims()[2] == 2);
  if (!shaped) return DataError("the signal is {}; [batch, length, 1 or 2] is needed", Describe(x));
  StftPlan plan;
  plan.batch = x.dims()[0];
  plan.length = x.dims()[1];
  plan.parts = x.dims()[2];
  ASSIGN_OR_RETURN(plan.step, OneInt(context.in(1)));
  if (plan.step < 1) return DataError("frame_step is {}", plan.step);
  const Tensor *window = context.input(2), *length = context.input(3);
  plan.frame = plan.length;
  if (length != nullptr) {
    ASSIGN_OR_RETURN(plan.frame, OneInt(*length));
  } else if (window != nullptr) {
    plan.frame = window->size();
  }
  if (plan.frame < 1 || plan.frame > plan.length) {
    return DataError("frames of {} in a signal of {}", plan.frame, plan.length);
  }
  if (window != nullptr && window->dims() != Dims{plan.frame}) {
    return DataError("a window of {} for frames of {}", ToString(window->dims()), plan.frame);
  }
  if (plan.frame > Fourier::kLongest) return Unsupported("frames of {}", plan.frame);
  const bool onesided = context.attributes().Int("onesided", 1) != 0;
  if (onesided && plan.parts == 2) return DataError("a onesided transform of a complex signal");
  plan.frames = (plan.length - plan.frame) / plan.step + 1;
  plan.bins = onesided ? plan.frame / 2 + 1 : plan.frame;
  return plan;
}

Status EvalStft(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const StftPlan plan, PlanStft(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto window, FloatInput<T>::Of(context, context.input(2)));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), {plan.batch, plan.frames, plan.bins, 2}));
    if (y.size() == 0) return y.Finish();
    const Fourier fourier(plan.frame);
    ScratchPool scratch(context, fourier.work_size() * static_cast<int64_t>(sizeof(Complex)));
    ParallelFor(plan.batch * plan.frames, [&](int64_t job) {
      const T* from = xs.data() + (job / plan.frames * plan.length + job % plan.frames * plan.step) * plan.parts;
      auto lease = scratch.Borrow();
      Complex* work = lease.template as<Complex>();
      for (int64_t i = 0; i < plan.frame; ++i) {
        const double weight = window.data() == nullptr ? 1.0 : static_cast<double>(window.data()[i]);
        work[i] = {weight * from[i * plan.parts], plan.parts == 2 ? weight * from[i * plan.parts + 1] : 0.0};
      }
      fourier.Forward(work);
      T* to = y.data() + job * plan.bins * 2;
      for (int64_t k = 0; k < plan.bins; ++k) {
        to[2 * k] = static_cast<T>(work[k].re);
        to[2 * k + 1] = static_cast<T>(work[k].im);
      }
    });
    return y.Finish();
  });
}

}  // namespace

const OpDef& STFTOp() {
  static const OpDef def = {.name = "STFT",
                            .since = {17},
                            .min_inputs = 2,
                            .eval = EvalStft,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "Fourier transforms of the frames of a signal"};
  return def;
}

}  // namespace quant
