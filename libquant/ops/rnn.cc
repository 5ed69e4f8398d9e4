// RNN: h' = f(x * W' + Wb + h * R' + Rb).
#include "libquant/ops/recurrent.h"

namespace quant {
namespace {

template <typename T>
Status Run(KernelContext& context, const RecurrentPlan& plan) {
  ASSIGN_OR_RETURN(std::vector<T> state, InitialState<T>(context, plan, 5));
  const auto step = [&](int64_t d, int64_t, T* x, T* r, T* hidden) {
    for (int64_t k = 0; k < plan.hidden; ++k) hidden[k] = x[k] + r[k];
    Activate(plan.activation(d, 0), static_cast<T>(plan.clip), plan.hidden, hidden);
  };
  return RunRecurrent<T>(context, plan, {}, std::move(state), step);
}

Status EvalRNN(KernelContext& context) {
  ASSIGN_OR_RETURN(const RecurrentPlan plan, PlanRecurrent(context, 1, {"Tanh"}));
  return WithComputeType(context.in(0).dtype(), [&](auto zero) { return Run<decltype(zero)>(context, plan); });
}

}  // namespace

const OpDef& RNNOp() {
  static const OpDef def = {
      .name = "RNN",
      .since = {7, 14, 22},
      .min_inputs = 3,
      .eval = EvalRNN,
      .role = Recurrent{.activation = 0, .weights = {1, 2}},
      .exactness = Exactness::kTranscendental,
      .summary = "Plain recurrence over the steps of sequences",
  };
  return def;
}

}  // namespace quant
