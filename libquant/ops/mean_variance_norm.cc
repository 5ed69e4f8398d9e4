// MeanVarianceNormalization: y = (x - mean) / (standard deviation + 1e-9) over the axes named, [0, 2, 3] by default.
// A kernel of its own, as the function body by which ONNX defines it takes E[x^2] - E[x]^2 for the variance, which
// cancels.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/reduce_rows.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

// The tensor turned so that the axes to normalise over are the last ones, and back.
struct RowsPlan {
  Dims dims;                           // turned
  std::vector<int64_t> strides, back;  // of the tensor in the turned order; of the turned one in the tensor's
  int64_t length = 1;                  // of a row
};

StatusOr<RowsPlan> PlanRows(const KernelContext& context) {
  const Dims& dims = context.in(0).dims();
  ASSIGN_OR_RETURN(const auto axes, NormalizeAxes(context.attributes().Ints("axes", {0, 2, 3}), context.in(0).rank()));
  std::vector<int64_t> order;
  for (int64_t i = 0; i < context.in(0).rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) order.push_back(i);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  RowsPlan plan;
  const std::vector<int64_t> strides = DenseStrides(dims);
  for (int64_t axis : order) {
    plan.dims.push_back(dims[static_cast<size_t>(axis)]);
    plan.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  for (int64_t axis : axes) plan.length *= dims[static_cast<size_t>(axis)];
  const std::vector<int64_t> turned = DenseStrides(plan.dims);
  plan.back.resize(dims.size());
  for (size_t i = 0; i < order.size(); ++i) plan.back[static_cast<size_t>(order[i])] = turned[i];
  return plan;
}

Status EvalMeanVarianceNorm(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const RowsPlan plan, PlanRows(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    if (x.size() == 0) return OkStatus();
    const auto buffer = context.Scratch(x.size() * static_cast<int64_t>(sizeof(T)));
    T* rows = reinterpret_cast<T*>(buffer->data());
    StridedCopy(reinterpret_cast<const std::byte*>(xs.data()), 0, plan.dims, plan.strides, sizeof(T), buffer->data());
    ParallelFor(x.size() / plan.length, [&](int64_t r) {
      T* row = rows + r * plan.length;
      const Moments moments = MomentsOf(row, plan.length);
      const double deviation = std::sqrt(moments.variance) + 1e-9;
      for (int64_t i = 0; i < plan.length; ++i) row[i] = static_cast<T>((row[i] - moments.mean) / deviation);
    });
    StridedCopy(buffer->data(), 0, x.dims(), plan.back, sizeof(T), reinterpret_cast<std::byte*>(y.data()));
    return y.Finish();
  });
}

}  // namespace

const OpDef& MeanVarianceNormalizationOp() {
  static const OpDef def = {.name = "MeanVarianceNormalization",
                            .since = {9, 13},
                            .min_inputs = 1,
                            .eval = EvalMeanVarianceNorm,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Brought to mean 0 and variance 1 over axes"};
  return def;
}

}  // namespace quant
