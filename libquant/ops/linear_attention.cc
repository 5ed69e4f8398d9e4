// LinearAttention: attention by a state S [d_k, d_v] for each key head, carried from step to step:
//   linear:       S += k (x) v                        gated: S = exp(g) S, then linear
//   delta:        S += k (x) (beta (v - S^T k))       gated_delta: S = exp(g) S, then delta
//   output = scale * S^T q for each query head of the key head's group
//   query [B, T, Hq * d_k], key [B, T, H * d_k], value [B, T, H * d_v], past_state [B, H, d_k, d_v],
//   decay g [B, T, H * d_k or H], beta [B, T, H or 1], output [B, T, Hq * d_v], present_state as past_state
// All in float32; the state has past_state's type on the way out, or the query's where there is none.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

struct LinearPlan {
  bool gated = true, delta = true;
  int64_t batch = 0, steps = 0, query_heads = 0, heads = 0, key_size = 0, value_size = 0;
  int64_t decays = 0, betas = 0;  // of a step
  float scale = 1;
};

struct LinearInputs {
  const float *query, *key, *value, *past, *decay, *beta;
};

Status ReadRule(const Attributes& attributes, LinearPlan& plan) {
  const std::string rule = attributes.String("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    return DataError("update_rule is '{}'", rule);
  }
  plan.gated = rule == "gated" || rule == "gated_delta";
  plan.delta = rule == "delta" || rule == "gated_delta";
  plan.query_heads = attributes.Int("q_num_heads", 0);
  plan.heads = attributes.Int("kv_num_heads", 0);
  if (plan.query_heads < 1 || plan.heads < 1 || plan.query_heads % plan.heads != 0) {
    return DataError("{} query heads for {} key heads", plan.query_heads, plan.heads);
  }
  return OkStatus();
}

StatusOr<LinearPlan> PlanLinear(const KernelContext& context) {
  LinearPlan plan;
  RETURN_IF_ERROR(ReadRule(context.attributes(), plan));
  RETURN_IF_ERROR(SameTypes(context, {1, 2, 4, 5}));
  const Tensor &q = context.in(0), &k = context.in(1), &v = context.in(2);
  const Tensor *past = context.input(3), *decay = context.input(4), *beta = context.input(5);
  for (const Tensor* t : {&q, &k, &v}) {
    if (t->rank() != 3) return DataError("an input is {}; [batch, steps, heads * size] is needed", Describe(*t));
  }
  plan.batch = q.dims()[0];
  plan.steps = q.dims()[1];
  plan.key_size = q.dims()[2] / plan.query_heads;
  plan.value_size = v.dims()[2] / plan.heads;
  const auto shaped = [&](const Tensor& t, int64_t last) { return t.dims() == Dims{plan.batch, plan.steps, last}; };
  if (!shaped(q, plan.query_heads * plan.key_size) || !shaped(k, plan.heads * plan.key_size) ||
      !shaped(v, plan.heads * plan.value_size)) {
    return DataError("a query of {}, key of {} and value of {} for {} and {} heads", ToString(q.dims()),
                     ToString(k.dims()), ToString(v.dims()), plan.query_heads, plan.heads);
  }
  if (plan.gated) {
    if (decay == nullptr) return DataError("the decay is missing");
    plan.decays = shaped(*decay, plan.heads) ? plan.heads : plan.heads * plan.key_size;
    if (!shaped(*decay, plan.decays)) return DataError("a decay of {}", ToString(decay->dims()));
  }
  if (plan.delta) {
    if (beta == nullptr) return DataError("beta is missing");
    plan.betas = shaped(*beta, 1) ? 1 : plan.heads;
    if (!shaped(*beta, plan.betas)) return DataError("a beta of {}", ToString(beta->dims()));
  }
  if (!CheckedMul(plan.query_heads, plan.value_size)) return DataError("{} query heads", plan.query_heads);
  const Dims state = {plan.batch, plan.heads, plan.key_size, plan.value_size};
  if (!CheckedProduct(state)) return DataError("a state of {} overflows", ToString(state));
  if (past != nullptr && past->dims() != state) {
    return DataError("past_state is {} where {} belongs", ToString(past->dims()), ToString(state));
  }
  plan.scale = context.attributes().Float("scale", 0);
  if (plan.scale == 0) plan.scale = 1 / std::sqrt(static_cast<float>(plan.key_size));
  return plan;
}

// One step of one key head: the state decays and takes in the step's key and value. `write` has value_size numbers.
void Step(const LinearPlan& plan, const LinearInputs& in, int64_t row, int64_t head, float* state, float* write) {
  const float* k = in.key + (row * plan.heads + head) * plan.key_size;
  const float* v = in.value + (row * plan.heads + head) * plan.value_size;
  if (plan.gated) {
    const int64_t each = plan.decays / plan.heads;
    const float* decay = in.decay + row * plan.decays + head * each;
    for (int64_t d = 0; d < plan.key_size; ++d) {
      const float factor = std::exp(decay[each == 1 ? 0 : d]);
      for (int64_t m = 0; m < plan.value_size; ++m) state[d * plan.value_size + m] *= factor;
    }
  }
  std::copy_n(v, plan.value_size, write);
  if (plan.delta) {
    for (int64_t d = 0; d < plan.key_size; ++d) {
      for (int64_t m = 0; m < plan.value_size; ++m) write[m] -= k[d] * state[d * plan.value_size + m];
    }
    const float beta = in.beta[row * plan.betas + (plan.betas == 1 ? 0 : head)];
    for (int64_t m = 0; m < plan.value_size; ++m) write[m] *= beta;
  }
  for (int64_t d = 0; d < plan.key_size; ++d) {
    for (int64_t m = 0; m < plan.value_size; ++m) state[d * plan.value_size + m] += k[d] * write[m];
  }
}

// The step's outputs of the query heads that share the key head.
void Read(const LinearPlan& plan, const LinearInputs& in, int64_t row, int64_t head, const float* state, float* y) {
  const int64_t group = plan.query_heads / plan.heads;
  for (int64_t h = head * group; h < (head + 1) * group; ++h) {
    const float* q = in.query + (row * plan.query_heads + h) * plan.key_size;
    float* out = y + (row * plan.query_heads + h) * plan.value_size;
    std::fill_n(out, plan.value_size, 0.0F);
    for (int64_t d = 0; d < plan.key_size; ++d) {
      for (int64_t m = 0; m < plan.value_size; ++m) out[m] += q[d] * state[d * plan.value_size + m];
    }
    for (int64_t m = 0; m < plan.value_size; ++m) out[m] *= plan.scale;
  }
}

Status EvalLinearAttention(KernelContext& context) {
  ASSIGN_OR_RETURN(const LinearPlan plan, PlanLinear(context));
  const Tensor* past = context.input(3);
  const DType dtype = context.in(0).dtype();
  std::array<FloatInput<float>, 6> views;
  for (int i = 0; i < 6; ++i) {
    ASSIGN_OR_RETURN(views[static_cast<size_t>(i)], FloatInput<float>::Of(context, context.input(i)));
  }
  const LinearInputs in = {views[0].data(), views[1].data(), views[2].data(),
                           views[3].data(), views[4].data(), views[5].data()};
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, 0, dtype,
                                                    {plan.batch, plan.steps, plan.query_heads * plan.value_size}));
  FloatOutput<float> present;
  if (context.wanted(1)) {
    ASSIGN_OR_RETURN(present, FloatOutput<float>::Make(context, 1, past == nullptr ? dtype : past->dtype(),
                                                       {plan.batch, plan.heads, plan.key_size, plan.value_size}));
  }
  const int64_t size = plan.key_size * plan.value_size;
  ScratchPool scratch(context, (size + plan.value_size) * static_cast<int64_t>(sizeof(float)));
  ParallelFor(plan.batch * plan.heads, [&](int64_t item) {
    auto lease = scratch.Borrow();
    float* state = lease.as<float>();
    if (in.past != nullptr) {
      std::copy_n(in.past + item * size, size, state);
    } else {
      std::fill_n(state, size, 0.0F);
    }
    for (int64_t t = 0; t < plan.steps; ++t) {
      const int64_t row = item / plan.heads * plan.steps + t;
      Step(plan, in, row, item % plan.heads, state, state + size);
      Read(plan, in, row, item % plan.heads, state, y.data());
    }
    if (context.wanted(1)) std::copy_n(state, size, present.data() + item * size);
  });
  if (context.wanted(1)) RETURN_IF_ERROR(present.Finish());
  return y.Finish();
}

}  // namespace

const OpDef& LinearAttentionOp() {
  static const OpDef def = {.name = "LinearAttention",
                            .since = {27},
                            .min_inputs = 3,
                            .eval = EvalLinearAttention,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "Attention by a state carried from step to step"};
  return def;
}

}  // namespace quant
