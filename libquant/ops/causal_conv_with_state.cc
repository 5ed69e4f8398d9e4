// CausalConvWithState: each channel convolved with its own kernel over the present and the k - 1 steps before, which
// the state carries from call to call (zeros when left out).
//   input [B, C, L], weight [C, 1, k], bias [C], past_state and present_state [B, C, k - 1]
//   y[b, c, l] = bias[c] + sum over j of weight[c, 0, j] * (past, input)[b, c, l + j];  silu(y) = y / (1 + exp(-y))
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

struct CausalPlan {
  int64_t batch = 0, channels = 0, length = 0, kernel = 1;
  bool silu = false;
};

StatusOr<CausalPlan> PlanCausal(const KernelContext& context) {
  RETURN_IF_ERROR(SameTypes(context, {1, 2, 3}));
  const Tensor &x = context.in(0), &w = context.in(1);
  const Tensor *bias = context.input(2), *past = context.input(3);
  if (x.rank() != 3 || w.rank() != 3 || w.dims()[0] != x.dims()[1] || w.dims()[1] != 1 || w.dims()[2] < 1) {
    return DataError("an input of {} with weights of {}", ToString(x.dims()), ToString(w.dims()));
  }
  CausalPlan plan = {x.dims()[0], x.dims()[1], x.dims()[2], w.dims()[2]};
  if (bias != nullptr && bias->dims() != Dims{plan.channels}) return DataError("a bias of {}", ToString(bias->dims()));
  if (past != nullptr && past->dims() != Dims{plan.batch, plan.channels, plan.kernel - 1}) {
    return DataError("past_state is {} for an input of {} with weights of {}", ToString(past->dims()),
                     ToString(x.dims()), ToString(w.dims()));
  }
  const std::string activation = context.attributes().String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return DataError("activation is '{}'", activation);
  }
  plan.silu = activation != "none";
  return plan;
}

Status EvalCausalConv(KernelContext& context) {
  ASSIGN_OR_RETURN(const CausalPlan plan, PlanCausal(context));
  const DType dtype = context.in(0).dtype();
  ASSIGN_OR_RETURN(const auto x, FloatInput<float>::Of(context, context.input(0)));
  ASSIGN_OR_RETURN(const auto w, FloatInput<float>::Of(context, context.input(1)));
  ASSIGN_OR_RETURN(const auto bias, FloatInput<float>::Of(context, context.input(2)));
  ASSIGN_OR_RETURN(const auto past, FloatInput<float>::Of(context, context.input(3)));
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, 0, dtype, context.in(0).dims()));
  FloatOutput<float> present;
  const int64_t carried = plan.kernel - 1;
  if (context.wanted(1)) {
    ASSIGN_OR_RETURN(present, FloatOutput<float>::Make(context, 1, dtype, {plan.batch, plan.channels, carried}));
  }
  ScratchPool scratch(context, (carried + plan.length) * static_cast<int64_t>(sizeof(float)));
  ParallelFor(plan.batch * plan.channels, [&](int64_t row) {
    auto lease = scratch.Borrow();
    float* all = lease.as<float>();  // what was carried, then the input
    if (past.data() != nullptr) {
      std::copy_n(past.data() + row * carried, carried, all);
    } else {
      std::fill_n(all, carried, 0.0F);
    }
    std::copy_n(x.data() + row * plan.length, plan.length, all + carried);
    const int64_t c = row % plan.channels;
    float* out = y.data() + row * plan.length;
    std::fill_n(out, plan.length, bias.data() == nullptr ? 0.0F : bias.data()[c]);
    for (int64_t j = 0; j < plan.kernel; ++j) {
      const float factor = w.data()[c * plan.kernel + j];
      for (int64_t l = 0; l < plan.length; ++l) out[l] += factor * all[l + j];
    }
    for (int64_t l = 0; plan.silu && l < plan.length; ++l) out[l] = out[l] / (1 + std::exp(-out[l]));
    if (context.wanted(1)) std::copy_n(all + plan.length, carried, present.data() + row * carried);
  });
  if (context.wanted(1)) RETURN_IF_ERROR(present.Finish());
  return y.Finish();
}

}  // namespace

const OpDef& CausalConvWithStateOp() {
  static const OpDef def = {.name = "CausalConvWithState",
                            .since = {27},
                            .min_inputs = 2,
                            .eval = EvalCausalConv,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "Depthwise convolution over past steps, carried from call to call"};
  return def;
}

}  // namespace quant
