// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss, which takes scores instead of their log-softmax over classes:
//   input [N, C, d...], target [N, d...], weight [C];  loss[n, d] = -weight[t] * log_prob[n, t, d], t = target[n, d]
// Reduced to nothing, a sum, or the sum over that of the weights. A target of ignore_index has weight 0.
#include <algorithm>
#include <optional>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/reduce_rows.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/softmax_row.h"

namespace quant {
namespace {

struct LossPlan {
  std::string reduction;
  int64_t classes = 0, inner = 1;  // inner: product of d...
  Dims target_dims;
  std::vector<int64_t> targets;  // -1: ignored
};

StatusOr<LossPlan> PlanLoss(const KernelContext& context) {
  const Tensor &x = context.in(0), &target = context.in(1);
  RETURN_IF_ERROR(SameTypes(context, {2}));
  if (x.rank() < 2) return DataError("the input is {}; [N, C, ...] is needed", Describe(x));
  LossPlan plan;
  plan.reduction = context.attributes().String("reduction", "mean");
  if (plan.reduction != "none" && plan.reduction != "sum" && plan.reduction != "mean") {
    return DataError("reduction is '{}'", plan.reduction);
  }
  plan.classes = x.dims()[1];
  plan.target_dims = x.dims();
  plan.target_dims.erase(plan.target_dims.begin() + 1);
  if (target.dims() != plan.target_dims) {
    return DataError("targets of {} for an input of {}", ToString(target.dims()), ToString(x.dims()));
  }
  if (const Tensor* weight = context.input(2); weight != nullptr && weight->dims() != Dims{plan.classes}) {
    return DataError("weights of {} for {} classes", ToString(weight->dims()), plan.classes);
  }
  if (target.size() > 0) plan.inner = ProductOf(plan.target_dims, 1, plan.target_dims.size());
  std::optional<int64_t> ignored;
  if (context.attributes().Has("ignore_index")) ignored = context.attributes().Int("ignore_index", 0);
  ASSIGN_OR_RETURN(plan.targets, IntsOf(target));
  for (int64_t& t : plan.targets) {
    if (t == ignored) {
      t = -1;
    } else if (t < 0 || t >= plan.classes) {
      return DataError("a target of {} where there are {} classes", t, plan.classes);
    }
  }
  return plan;
}

// Output 0 from log-probabilities.
template <typename T>
Status Reduce(KernelContext& context, const LossPlan& plan, const T* log_prob) {
  const DType dtype = context.in(0).dtype();
  ASSIGN_OR_RETURN(const auto weight, FloatInput<T>::Of(context, context.input(2)));
  const auto count = static_cast<int64_t>(plan.targets.size());
  std::vector<T> losses(plan.targets.size(), T{0}), weights(plan.targets.size(), T{0});
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t t = plan.targets[at];
    if (t < 0) continue;
    weights[at] = weight.data() == nullptr ? T{1} : weight.data()[t];
    losses[at] = -weights[at] * log_prob[(i / plan.inner * plan.classes + t) * plan.inner + i % plan.inner];
  }
  const bool keep = plan.reduction == "none";
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, dtype, keep ? plan.target_dims : Dims()));
  if (keep) {
    std::copy(losses.begin(), losses.end(), y.data());
  } else {
    const double divisor = plan.reduction == "mean" ? Sum(weights.data(), count) : 1;
    y.data()[0] = static_cast<T>(Sum(losses.data(), count) / divisor);
  }
  return y.Finish();
}

Status EvalLikelihoodLoss(KernelContext& context) {
  ASSIGN_OR_RETURN(const LossPlan plan, PlanLoss(context));
  return WithComputeType(context.in(0).dtype(), [&](auto zero) -> Status {
    ASSIGN_OR_RETURN(const auto x, FloatInput<decltype(zero)>::Of(context, &context.in(0)));
    return Reduce(context, plan, x.data());
  });
}

// The log-softmax over classes of every target's column.
template <typename T>
void LogSoftmaxColumns(const KernelContext& context, const LossPlan& plan, const T* x, T* y) {
  ScratchPool scratch(context, 2 * plan.classes * static_cast<int64_t>(sizeof(T)));
  constexpr int64_t kPiece = 64;
  const auto count = static_cast<int64_t>(plan.targets.size());
  ParallelFor(CeilDiv(count, kPiece), [&](int64_t piece) {
    auto lease = scratch.Borrow();
    T* column = lease.template as<T>();
    for (int64_t i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i) {
      const int64_t first = i / plan.inner * plan.classes * plan.inner + i % plan.inner;
      for (int64_t c = 0; c < plan.classes; ++c) column[c] = x[first + c * plan.inner];
      SoftmaxRow<T, true>(column, plan.classes, column + plan.classes);
      for (int64_t c = 0; c < plan.classes; ++c) y[first + c * plan.inner] = column[plan.classes + c];
    }
  });
}

Status EvalCrossEntropyLoss(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const LossPlan plan, PlanLoss(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    FloatOutput<T> out;
    std::shared_ptr<Buffer> buffer;
    T* log_prob = nullptr;
    if (context.wanted(1)) {
      ASSIGN_OR_RETURN(out, FloatOutput<T>::Make(context, 1, x.dtype(), x.dims()));
      log_prob = out.data();
    } else {
      buffer = context.Scratch(x.size() * static_cast<int64_t>(sizeof(T)));
      log_prob = reinterpret_cast<T*>(buffer->data());
    }
    if (x.size() > 0) LogSoftmaxColumns(context, plan, xs.data(), log_prob);
    RETURN_IF_ERROR(Reduce(context, plan, static_cast<const T*>(log_prob)));
    return context.wanted(1) ? out.Finish() : OkStatus();
  });
}

}  // namespace

const OpDef& NegativeLogLikelihoodLossOp() {
  static const OpDef def = {.name = "NegativeLogLikelihoodLoss",
                            .since = {12, 13, 22},
                            .min_inputs = 2,
                            .eval = EvalLikelihoodLoss,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "The loss of log-probabilities against target classes"};
  return def;
}

const OpDef& SoftmaxCrossEntropyLossOp() {
  static const OpDef def = {.name = "SoftmaxCrossEntropyLoss",
                            .since = {12, 13},
                            .min_inputs = 2,
                            .eval = EvalCrossEntropyLoss,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "The loss of scores against target classes"};
  return def;
}

}  // namespace quant
