#include "libquant/ops/recurrent.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/ops/gemm.h"

namespace quant {
namespace {

// activation_alpha and activation_beta hold values for those functions alone that have such a parameter, in order.
StatusOr<std::vector<Activation>> ReadActivations(const Attributes& attributes, std::vector<std::string> names) {
  const std::vector<float> alphas = attributes.Floats("activation_alpha"), betas = attributes.Floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> out;
  for (std::string& name : names) {
    ASSIGN_OR_RETURN(const ActivationRow row, FindActivation(std::move(name)));
    Activation f = row.defaults;
    if (row.parameters > 0 && alpha < alphas.size()) f.alpha = double{alphas[alpha++]};
    if (row.parameters > 1 && beta < betas.size()) f.beta = double{betas[beta++]};
    out.push_back(f);
  }
  return out;
}

Status ReadDirection(const Attributes& attributes, RecurrentPlan& plan) {
  const std::string direction = attributes.String("direction", "forward");
  if (direction == "forward") {
    plan.reverse = {false};
  } else if (direction == "reverse") {
    plan.reverse = {true};
  } else if (direction == "bidirectional") {
    plan.reverse = {false, true};
  } else {
    return DataError("the direction '{}' is not known", direction);
  }
  plan.directions = static_cast<int64_t>(plan.reverse.size());
  return OkStatus();
}

Status CheckDims(const Tensor* tensor, std::string_view what, const Dims& wanted) {
  if (tensor == nullptr || tensor->dims() == wanted) return OkStatus();
  return DataError("{} of {} where {} belong", what, ToString(tensor->dims()), ToString(wanted));
}

Status ReadLengths(const KernelContext& context, RecurrentPlan& plan) {
  const Tensor* lengths = context.input(4);
  plan.lengths.assign(static_cast<size_t>(plan.batch), static_cast<int32_t>(plan.steps));
  if (lengths == nullptr) return OkStatus();
  if (lengths->dtype() != DType::kInt32) return DataError("sequence_lens of type {}", NameOf(lengths->dtype()));
  RETURN_IF_ERROR(CheckDims(lengths, "sequence_lens", {plan.batch}));
  for (int64_t b = 0; b < plan.batch; ++b) {
    const int32_t length = lengths->data<int32_t>()[static_cast<size_t>(b)];
    if (length < 0 || length > plan.steps) return DataError("a sequence of length {} of {} steps", length, plan.steps);
    plan.lengths[static_cast<size_t>(b)] = length;
  }
  return OkStatus();
}

// [D, B, H] from a tensor in the plan's layout, or back.
template <typename T>
void CopyStates(const RecurrentPlan& plan, bool to_tensor, T* tensor, T* states) {
  for (int64_t d = 0; d < plan.directions; ++d) {
    for (int64_t b = 0; b < plan.batch; ++b) {
      T* state = states + (d * plan.batch + b) * plan.hidden;
      T* there = tensor + plan.state_at(d, b);
      std::copy_n(to_tensor ? state : there, plan.hidden, to_tensor ? there : state);
    }
  }
}

// The input's share of all gates, [rows of x, gates * H], with the biases.
template <typename T>
void ProjectInput(const RecurrentPlan& plan, const RecurrentOptions& options, const T* x, const T* w, const T* bias,
                  T* out) {
  const int64_t rows = plan.steps * plan.batch, width = plan.gates * plan.hidden;
  if (bias != nullptr) {
    const int64_t both = options.apart_from_gate < 0 ? width : options.apart_from_gate * plan.hidden;
    for (int64_t i = 0; i < width; ++i) out[i] = bias[i] + (i < both ? bias[width + i] : T(0));
    for (int64_t r = 1; r < rows; ++r) std::copy_n(out, width, out + r * width);
  }
  GemmBatch<T>({rows, width, plan.inputs}, 1, [&](int64_t) {
    return GemmOperands<T>{{x, plan.inputs}, {w, plan.inputs, true}, out, width, bias != nullptr};
  });
}

}  // namespace

Dims RecurrentPlan::y_dims() const {
  return batch_first ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden};
}
Dims RecurrentPlan::state_dims() const {
  return batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
}

StatusOr<RecurrentPlan> PlanRecurrent(const KernelContext& context, int64_t gates,
                                      const std::vector<std::string>& defaults) {
  RETURN_IF_ERROR(SameTypes(context, {1, 2, 3, 5}));
  const Attributes& attributes = context.attributes();
  RecurrentPlan plan;
  plan.gates = gates;
  RETURN_IF_ERROR(ReadDirection(attributes, plan));
  plan.batch_first = attributes.Int("layout", 0) != 0;
  plan.clip = double{attributes.Float("clip", 0)};
  const Tensor &x = context.in(0), &r = context.in(2);
  if (x.rank() != 3 || r.rank() != 3)
    return DataError("an input of {} with R of {}", ToString(x.dims()), ToString(r.dims()));
  plan.steps = x.dims()[plan.batch_first ? 1 : 0];
  plan.batch = x.dims()[plan.batch_first ? 0 : 1];
  plan.inputs = x.dims()[2];
  plan.hidden = r.dims()[2];
  if (plan.steps > INT32_MAX) return DataError("{} time steps", plan.steps);
  const auto width = CheckedMul(gates, plan.hidden);
  const auto rows = CheckedMul(plan.steps, plan.batch);
  if (!width || !CheckedMul(*width, 4) || !rows || !CheckedMul(*rows, *width * 4)) {
    return DataError("{} steps of {} gates of {} are too many", plan.steps, gates, plan.hidden);
  }
  RETURN_IF_ERROR(CheckDims(&context.in(1), "W", {plan.directions, *width, plan.inputs}));
  RETURN_IF_ERROR(CheckDims(&r, "R", {plan.directions, *width, plan.hidden}));
  RETURN_IF_ERROR(CheckDims(context.input(3), "B", {plan.directions, 2 * *width}));
  RETURN_IF_ERROR(ReadLengths(context, plan));
  std::vector<std::string> names = attributes.Strings("activations");
  if (names.empty()) {
    for (int64_t d = 0; d < plan.directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() < defaults.size() * static_cast<size_t>(plan.directions)) {
    return DataError("{} activations for {} directions", names.size(), plan.directions);
  }
  names.resize(defaults.size() * static_cast<size_t>(plan.directions));
  ASSIGN_OR_RETURN(plan.activations, ReadActivations(attributes, std::move(names)));
  return plan;
}

template <typename T>
StatusOr<std::vector<T>> InitialState(const KernelContext& context, const RecurrentPlan& plan, int input) {
  std::vector<T> out(static_cast<size_t>(plan.directions * plan.batch * plan.hidden), T(0));
  const Tensor* tensor = context.input(input);
  if (tensor == nullptr) return out;
  RETURN_IF_ERROR(CheckDims(tensor, "an initial state", plan.state_dims()));
  ASSIGN_OR_RETURN(const auto values, FloatInput<T>::Of(context, tensor));
  CopyStates(plan, false, const_cast<T*>(values.data()), out.data());  // only read
  return out;
}

template <typename T>
Status RunRecurrent(KernelContext& context, const RecurrentPlan& plan, const RecurrentOptions& options,
                    std::vector<T> state, const RecurrentStep<T>& step) {
  const int64_t width = plan.gates * plan.hidden, h = plan.hidden;
  const DType dtype = context.in(0).dtype();
  ASSIGN_OR_RETURN(const auto x, FloatInput<T>::Of(context, &context.in(0)));
  ASSIGN_OR_RETURN(const auto w, FloatInput<T>::Of(context, &context.in(1)));
  ASSIGN_OR_RETURN(const auto r, FloatInput<T>::Of(context, &context.in(2)));
  ASSIGN_OR_RETURN(const auto bias, FloatInput<T>::Of(context, context.input(3)));
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, dtype, plan.y_dims()));
  std::fill_n(y.data(), y.size(), T(0));
  std::vector<T> projected(static_cast<size_t>(plan.steps * plan.batch * width));
  std::vector<T> recurrent(static_cast<size_t>(plan.batch * width));
  for (int64_t d = 0; d < plan.directions && plan.batch > 0 && h > 0; ++d) {
    const T* b = bias.data() == nullptr ? nullptr : bias.data() + d * 2 * width;
    if (plan.steps > 0) ProjectInput(plan, options, x.data(), w.data() + d * width * plan.inputs, b, projected.data());
    T* states = state.data() + d * plan.batch * h;
    const bool apart = b != nullptr && options.apart_from_gate >= 0;
    for (int64_t s = 0; s < plan.steps; ++s) {
      for (int64_t n = 0; n < plan.batch && apart; ++n) {
        std::fill_n(recurrent.data() + n * width, options.apart_from_gate * h, T(0));
        std::copy(b + width + options.apart_from_gate * h, b + 2 * width,
                  recurrent.data() + n * width + options.apart_from_gate * h);
      }
      GemmBatch<T>({plan.batch, width, h}, 1, [&](int64_t) {
        return GemmOperands<T>{{states, h}, {r.data() + d * width * h, h, true}, recurrent.data(), width, apart};
      });
      for (int64_t n = 0; n < plan.batch; ++n) {
        const int32_t length = plan.lengths[static_cast<size_t>(n)];
        if (s >= length) continue;
        const int64_t t = plan.reverse[static_cast<size_t>(d)] ? length - 1 - s : s;
        step(d, n, projected.data() + plan.x_row(t, n) * width, recurrent.data() + n * width, states + n * h);
        std::copy_n(states + n * h, h, y.data() + plan.y_at(t, d, n));
      }
    }
  }
  RETURN_IF_ERROR(y.Finish());
  return WriteState(context, plan, 1, state);
}

template <typename T>
Status WriteState(KernelContext& context, const RecurrentPlan& plan, int i, const std::vector<T>& state) {
  if (!context.wanted(i)) return OkStatus();
  ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, i, context.in(0).dtype(), plan.state_dims()));
  CopyStates(plan, true, out.data(), const_cast<T*>(state.data()));  // only read
  return out.Finish();
}

#define NIBBLE_RECURRENT(T)                                                                                      \
  template StatusOr<std::vector<T>> InitialState<T>(const KernelContext&, const RecurrentPlan&, int);            \
  template Status RunRecurrent<T>(KernelContext&, const RecurrentPlan&, const RecurrentOptions&, std::vector<T>, \
                                  const RecurrentStep<T>&);                                                      \
  template Status WriteState<T>(KernelContext&, const RecurrentPlan&, int, const std::vector<T>&);
NIBBLE_RECURRENT(float)
NIBBLE_RECURRENT(double)
#undef NIBBLE_RECURRENT

}  // namespace quant
