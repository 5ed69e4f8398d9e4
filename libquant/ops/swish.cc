// Swish, and com.microsoft QuickGelu, which is Swish with an alpha of 1.702 unless it says otherwise:
//   y = x / (1 + exp(-alpha x))
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/exp_rows.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/infer_shapes.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;

// The sigmoid is 1 / (1 + exp(-|z|)), mirrored for negative z, so that no exponential overflows.
template <typename T>
void SwishRun(const T* x, T alpha, int64_t count, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = -std::abs(alpha * x[i]);
  ExpRow(y, T{0}, count, y);
  for (int64_t i = 0; i < count; ++i) {
    const T e = y[i];
    y[i] = x[i] * ((alpha * x[i] < 0 ? e : T{1}) / (T{1} + e));
  }
}

Status EvalWithAlpha(KernelContext& context, float otherwise) {
  const Tensor& x = context.in(0);
  const float alpha = context.attributes().Float("alpha", otherwise);
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    ParallelFor(CeilDiv(x.size(), kPieceElements), [&](int64_t piece) {
      const int64_t begin = piece * kPieceElements;
      SwishRun(in.data() + begin, static_cast<T>(alpha), std::min(kPieceElements, x.size() - begin),
               out.data() + begin);
    });
    return out.Finish();
  });
}

Status EvalSwish(KernelContext& context) { return EvalWithAlpha(context, 1); }
Status EvalQuickGelu(KernelContext& context) { return EvalWithAlpha(context, 1.702F); }

}  // namespace

const OpDef& SwishOp() {
  static const OpDef def = {.name = "Swish",
                            .since = {24},
                            .min_inputs = 1,
                            .eval = EvalSwish,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "x times the sigmoid of alpha x"};
  return def;
}

const OpDef& QuickGeluOp() {
  static const SchemaRow schema = {
      .doc = "x times the sigmoid of alpha x",
      .inputs = {{"X", "T"}},
      .outputs = {{"Y", "T"}},
      .attributes = {{"alpha", AttributeKind::kFloat}},
      .types = {{"T", {"tensor(float16)", "tensor(float)", "tensor(double)", "tensor(bfloat16)"}}},
      .infer = InferLikeFirst};
  static const OpDef def = {.name = "QuickGelu",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 1,
                            .eval = EvalQuickGelu,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .schema = &schema,
                            .summary = "x times the sigmoid of 1.702 x"};
  return def;
}

}  // namespace quant
