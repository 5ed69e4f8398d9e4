// GRU, gates in the order z, r, h:
//   z = f(.)   r = f(.)   g = g(x * Wh' + Wbh + (r * h) * Rh' + Rbh), or with linear_before_reset
//   g = g(x * Wh' + Wbh + r * (h * Rh' + Rbh))           h' = (1 - z) * g + z * h
#include "libquant/ops/gemm.h"
#include "libquant/ops/recurrent.h"

namespace quant {
namespace {

template <typename T>
Status Run(KernelContext& context, const RecurrentPlan& plan) {
  const int64_t h = plan.hidden;
  ASSIGN_OR_RETURN(const auto weights, FloatInput<T>::Of(context, &context.in(2)));
  ASSIGN_OR_RETURN(std::vector<T> state, InitialState<T>(context, plan, 5));
  const bool linear = context.attributes().Int("linear_before_reset", 0) != 0;
  const T clip = static_cast<T>(plan.clip);
  std::vector<T> reset(static_cast<size_t>(h));
  const auto step = [&](int64_t d, int64_t, T* x, T* r, T* hidden) {
    T *update = x, *forget = x + h, *cell = x + 2 * h;
    for (int64_t k = 0; k < 2 * h; ++k) x[k] += r[k];
    Activate(plan.activation(d, 0), clip, 2 * h, x);
    if (linear) {
      for (int64_t k = 0; k < h; ++k) cell[k] += forget[k] * r[2 * h + k];
    } else {
      for (int64_t k = 0; k < h; ++k) reset[static_cast<size_t>(k)] = forget[k] * hidden[k];
      const T* rows = weights.data() + (d * 3 + 2) * h * h;
      for (int64_t k = 0; k < h; ++k) cell[k] += Dot(reset.data(), rows + k * h, h);
    }
    Activate(plan.activation(d, 1), clip, h, cell);
    for (int64_t k = 0; k < h; ++k) hidden[k] = (T(1) - update[k]) * cell[k] + update[k] * hidden[k];
  };
  // Where r multiplies the state's whole share, its bias belongs to that share.
  return RunRecurrent<T>(context, plan, {.apart_from_gate = linear ? 2 : -1}, std::move(state), step);
}

Status EvalGRU(KernelContext& context) {
  ASSIGN_OR_RETURN(const RecurrentPlan plan, PlanRecurrent(context, 3, {"Sigmoid", "Tanh"}));
  return WithComputeType(context.in(0).dtype(), [&](auto zero) { return Run<decltype(zero)>(context, plan); });
}

}  // namespace

const OpDef& GRUOp() {
  static const OpDef def = {
      .name = "GRU",
      .since = {7, 14, 22},
      .min_inputs = 3,
      .eval = EvalGRU,
      .role = Recurrent{.activation = 0, .weights = {1, 2}},
      .exactness = Exactness::kTranscendental,
      .summary = "Gated recurrent units over the steps of sequences",
  };
  return def;
}

}  // namespace quant
