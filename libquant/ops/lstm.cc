// LSTM, gates in the order i, o, f, c:
//   i = f(. + Pi * c)   o = f(. + Po * c')   f = f(. + Pf * c), or 1 - i with input_forget   g = g(.)
//   c' = f * c + i * g   h' = o * h(c')
#include "libquant/ops/recurrent.h"

namespace quant {
namespace {

template <typename T>
Status Run(KernelContext& context, const RecurrentPlan& plan) {
  const int64_t h = plan.hidden;
  const Tensor* peepholes = context.input(7);
  if (peepholes != nullptr && peepholes->dims() != Dims{plan.directions, 3 * h}) {
    return DataError("P of {} where {} belong", ToString(peepholes->dims()), ToString(Dims{plan.directions, 3 * h}));
  }
  ASSIGN_OR_RETURN(const auto p, FloatInput<T>::Of(context, peepholes));
  ASSIGN_OR_RETURN(std::vector<T> state, InitialState<T>(context, plan, 5));
  ASSIGN_OR_RETURN(std::vector<T> cells, InitialState<T>(context, plan, 6));
  const bool coupled = context.attributes().Int("input_forget", 0) != 0;
  const T clip = static_cast<T>(plan.clip);
  const auto step = [&](int64_t d, int64_t b, T* x, T* r, T* hidden) {
    T* c = cells.data() + (d * plan.batch + b) * h;
    T *in = x, *out = x + h, *forget = x + 2 * h, *cell = x + 3 * h;
    const T* peep = p.data() == nullptr ? nullptr : p.data() + d * 3 * h;
    for (int64_t k = 0; k < 4 * h; ++k) x[k] += r[k];
    for (int64_t k = 0; k < h && peep != nullptr; ++k) {
      in[k] += peep[k] * c[k];
      forget[k] += peep[2 * h + k] * c[k];
    }
    Activate(plan.activation(d, 0), clip, h, in);
    Activate(plan.activation(d, 0), clip, h, forget);
    Activate(plan.activation(d, 1), clip, h, cell);
    for (int64_t k = 0; k < h; ++k) {
      c[k] = (coupled ? T(1) - in[k] : forget[k]) * c[k] + in[k] * cell[k];
      if (peep != nullptr) out[k] += peep[h + k] * c[k];
      hidden[k] = c[k];
    }
    Activate(plan.activation(d, 0), clip, h, out);
    Activate(plan.activation(d, 2), T{0}, h, hidden);  // as ONNX Runtime: gates alone are clipped
    for (int64_t k = 0; k < h; ++k) hidden[k] *= out[k];
  };
  RETURN_IF_ERROR(RunRecurrent<T>(context, plan, {}, std::move(state), step));
  return WriteState(context, plan, 2, cells);
}

Status EvalLSTM(KernelContext& context) {
  RETURN_IF_ERROR(SameTypes(context, {6, 7}));
  ASSIGN_OR_RETURN(const RecurrentPlan plan, PlanRecurrent(context, 4, {"Sigmoid", "Tanh", "Tanh"}));
  return WithComputeType(context.in(0).dtype(), [&](auto zero) { return Run<decltype(zero)>(context, plan); });
}

}  // namespace

const OpDef& LSTMOp() {
  static const OpDef def = {
      .name = "LSTM",
      .since = {7, 14, 22},
      .min_inputs = 3,
      .eval = EvalLSTM,
      .role = Recurrent{.activation = 0, .weights = {1, 2}},
      .exactness = Exactness::kTranscendental,
      .summary = "Long short-term memory over the steps of sequences",
  };
  return def;
}

}  // namespace quant
