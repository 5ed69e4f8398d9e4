// GlobalAveragePool, GlobalMaxPool: one value of each channel's plane.
#include <limits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {
namespace {

struct MeanOf {
  template <typename T>
  static T Reduce(const T* plane, int64_t size) {
    return static_cast<T>(Sum(plane, size) / static_cast<double>(size));
  }
};

struct LargestOf {
  template <typename T>
  static T Reduce(const T* plane, int64_t size) {
    T best = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < size; ++i) best = plane[i] > best ? plane[i] : best;
    return best;
  }
};

template <typename Reduction>
Status EvalGlobalPool(KernelContext& context) {
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
    ParallelFor(planes, [&](int64_t p) { y.data()[p] = Reduction::Reduce(xs.data() + p * plane, plane); });
    return y.Finish();
  });
}

}  // namespace

const OpDef& GlobalAveragePoolOp() {
  static const OpDef def = {
      .name = "GlobalAveragePool",
      .since = {1, 22},
      .min_inputs = 1,
      .eval = EvalGlobalPool<MeanOf>,
      .role = Requantize{},
      .exactness = Exactness::kRounding,
      .summary = "Mean of each channel's plane",
  };
  return def;
}

const OpDef& GlobalMaxPoolOp() {
  static const OpDef def = {
      .name = "GlobalMaxPool",
      .since = {1, 22},
      .min_inputs = 1,
      .eval = EvalGlobalPool<LargestOf>,
      .role = OrderPreserving{},
      .exactness = Exactness::kExact,
      .summary = "Largest element of each channel's plane",
  };
  return def;
}

}  // namespace quant
