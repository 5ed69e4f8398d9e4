// GlobalAveragePool, GlobalMaxPool, GlobalLpPool: one value of each channel's plane.
#include <cmath>
#include <limits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {
namespace {

struct MeanOf {
  template <typename T>
  T operator()(const T* plane, int64_t size) const {
    return static_cast<T>(Sum(plane, size) / static_cast<double>(size));
  }
};

struct LargestOf {
  template <typename T>
  T operator()(const T* plane, int64_t size) const {
    T best = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < size; ++i) best = plane[i] > best ? plane[i] : best;
    return best;
  }
};

struct NormOf {
  double p;
  template <typename T>
  T operator()(const T* plane, int64_t size) const {
    if (p == 1) return static_cast<T>(SumOf(plane, size, [](double v) { return std::abs(v); }));
    if (p == 2) return static_cast<T>(std::sqrt(SumOf(plane, size, [](double v) { return v * v; })));
    return static_cast<T>(std::pow(SumOf(plane, size, [this](double v) { return std::pow(std::abs(v), p); }), 1 / p));
  }
};

template <typename Reduction>
Status GlobalPool(KernelContext& context, Reduction reduce) {
  const Tensor& x = context.in(0);
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  Dims dims(x.dims().size(), 1);
  dims[0] = x.dims()[0];
  dims[1] = x.dims()[1];
  const int64_t planes = dims[0] * dims[1];
  const int64_t plane = *CheckedProduct(std::span(x.dims()).subspan(2));
  if (plane == 0) return DataError("a plane of {} has no elements to pool", ToString(x.dims()));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), dims));
    ParallelFor(planes, [&](int64_t p) { y.data()[p] = reduce(xs.data() + p * plane, plane); });
    return y.Finish();
  });
}

Status EvalGlobalAveragePool(KernelContext& context) { return GlobalPool(context, MeanOf()); }
Status EvalGlobalMaxPool(KernelContext& context) { return GlobalPool(context, LargestOf()); }
Status EvalGlobalLpPool(KernelContext& context) {
  const int64_t p = context.attributes().Int("p", 2);
  if (p < 1) return DataError("p is {}", p);
  return GlobalPool(context, NormOf{static_cast<double>(p)});
}

}  // namespace

const OpDef& GlobalAveragePoolOp() {
  static const OpDef def = {
      .name = "GlobalAveragePool",
      .since = {1, 22},
      .min_inputs = 1,
      .eval = EvalGlobalAveragePool,
      .role = Requantize{},
      .exactness = Exactness::kRounding,
      .summary = "Mean of each channel's plane",
  };
  return def;
}

const OpDef& GlobalLpPoolOp() {
  static const OpDef def = {
      .name = "GlobalLpPool",
      .since = {2, 22},
      .min_inputs = 1,
      .eval = EvalGlobalLpPool,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .summary = "p-norm of each channel's plane",
  };
  return def;
}

const OpDef& GlobalMaxPoolOp() {
  static const OpDef def = {
      .name = "GlobalMaxPool",
      .since = {1, 22},
      .min_inputs = 1,
      .eval = EvalGlobalMaxPool,
      .role = OrderPreserving{},
      .exactness = Exactness::kExact,
      .summary = "Largest element of each channel's plane",
  };
  return def;
}

}  // namespace quant
