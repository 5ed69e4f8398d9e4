// Operators that compute on shapes and make constants.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/exact_op.h"

namespace quant {
namespace {

Status EvalShape(KernelContext& context) {
  const Tensor& x = context.in(0);
  const int64_t rank = x.rank();
  const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = clamp(context.attributes().Int("start", 0));
  const int64_t end = std::max(start, clamp(context.attributes().Int("end", rank)));
  context.Set(0, Tensor::Of<int64_t>({end - start}, std::span(x.dims()).subspan(static_cast<size_t>(start),
                                                                                static_cast<size_t>(end - start))));
  return OkStatus();
}

Status EvalSize(KernelContext& context) {
  context.Set(0, Tensor::Scalar<int64_t>(context.in(0).size()));
  return OkStatus();
}

Status EvalConstantOfShape(KernelContext& context) {
  ASSIGN_OR_RETURN(Dims dims, IntsOf(context.in(0)));
  const Tensor* value = context.attributes().TensorOrNull("value");
  Tensor fill = Tensor::Scalar(0.0f);
  if (value != nullptr) {
    ASSIGN_OR_RETURN(fill, value->Materialize());
  }
  if (fill.size() != 1) return DataError("value has {} elements", fill.size());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, fill.dtype(), std::move(dims)));
  return WithElementBits(fill.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    std::fill(out->mutable_data<T>().begin(), out->mutable_data<T>().end(), fill.data<T>()[0]);
    return OkStatus();
  });
}

// The number of elements of a range, of float64 end points.
StatusOr<int64_t> RangeLength(double start, double limit, double delta) {
  const double count = std::ceil((limit - start) / delta);
  if (!(std::abs(count) < 1e15)) return DataError("range from {} to {} in steps of {}", start, limit, delta);
  return std::max<int64_t>(0, static_cast<int64_t>(count));
}

// A range computed in type C and stored as T.
template <typename T, typename C>
Status MakeRange(KernelContext& context) {
  const C start = static_cast<C>(context.in(0).data<T>()[0]), limit = static_cast<C>(context.in(1).data<T>()[0]),
          delta = static_cast<C>(context.in(2).data<T>()[0]);
  ASSIGN_OR_RETURN(const int64_t length,
                   RangeLength(static_cast<double>(start), static_cast<double>(limit), static_cast<double>(delta)));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DTypeOf<T>(), {length}));
  const auto values = out->mutable_data<T>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(start + static_cast<C>(i) * delta);
  return OkStatus();
}

// start, start + delta, ... below (or, counting down, above) limit. 16-bit floats are computed in float32, or in
// float64 when stash_type says so.
Status EvalRange(KernelContext& context) {
  const Tensor& start = context.in(0);
  for (int i = 0; i < 3; ++i) {
    if (context.in(i).size() != 1 || context.in(i).dtype() != start.dtype())
      return DataError("input {} is {}", i, Describe(context.in(i)));
  }
  const auto stash = context.attributes().Int("stash_type", static_cast<int64_t>(DType::kFloat));
  const bool in_double = stash == static_cast<int64_t>(DType::kDouble);
  if (!in_double && stash != static_cast<int64_t>(DType::kFloat)) return DataError("stash_type is {}", stash);
  return WithType<int64_t, int32_t, float, double, int16_t, float16, bfloat16>(start.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    if (!std::is_same_v<T, W> && in_double) return MakeRange<T, double>(context);
    return MakeRange<T, W>(context);
  });
}

}  // namespace

const OpDef& ShapeOp() {
  static const OpDef def =
      ExactOp("Shape", {1, 13, 15, 19, 21, 23, 24, 25}, 1, EvalShape, Control{}, "The input's dims");
  return def;
}
const OpDef& SizeOp() {
  static const OpDef def =
      ExactOp("Size", {1, 13, 19, 21, 23, 24, 25}, 1, EvalSize, Control{}, "The number of elements");
  return def;
}
const OpDef& ConstantOfShapeOp() {
  static const OpDef def = ExactOp("ConstantOfShape", {9, 20, 21, 23, 24, 25}, 1, EvalConstantOfShape, Control{},
                                   "A tensor filled with one value");
  return def;
}
const OpDef& RangeOp() {
  static const OpDef def = ExactOp("Range", {11, 27}, 3, EvalRange, Control{}, "Evenly spaced numbers");
  return def;
}

}  // namespace quant
