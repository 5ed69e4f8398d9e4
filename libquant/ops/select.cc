// Elements picked by a condition: Compress takes slices (or, without an axis, elements) where it is true, NonZero tells
// where elements are not 0.
#include <cstring>

#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

Status EvalCompress(KernelContext& context) {
  const Tensor &input = context.in(0), &condition = context.in(1);
  if (condition.dtype() != DType::kBool || condition.rank() != 1)
    return DataError("the condition is {}", Describe(condition));
  const bool flat = !context.attributes().Has("axis");
  const Tensor x = flat ? input.Reshaped({input.size()}) : input;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const AxisSplit split = SplitAt(x.dims(), axis);
  // The condition may be shorter than the axis.
  std::vector<int64_t> picks;
  for (int64_t i = 0; i < condition.size(); ++i) {
    if (!condition.data<bool>()[static_cast<size_t>(i)]) continue;
    if (i >= split.length) return DataError("the condition is true at {} of an axis of {}", i, split.length);
    picks.push_back(i);
  }
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(picks.size());
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), dims));
  if (out->size() == 0) return OkStatus();
  const auto run = static_cast<size_t>(split.inner * element);
  std::byte* to = out->mutable_bytes().data();
  for (int64_t o = 0; o < split.outer; ++o) {
    const std::byte* from = x.bytes().data() + static_cast<size_t>(o * split.length) * run;
    for (const int64_t pick : picks) {
      std::memcpy(to, from + static_cast<size_t>(pick) * run, run);
      to += run;
    }
  }
  return OkStatus();
}

// Places of the elements that are not 0, in order.
StatusOr<std::vector<int64_t>> PlacesOf(const Tensor& x) {
  std::vector<int64_t> out;
  const auto collect = [&](auto zero) -> Status {
    using T = decltype(zero);
    const auto values = x.data<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != zero) out.push_back(static_cast<int64_t>(i));
    }
    return OkStatus();
  };
  RETURN_IF_ERROR(x.dtype() == DType::kBool ? collect(false) : WithNumber(x.dtype(), collect));
  return out;
}

// [rank, count]: a row of indices for each axis. A scalar has no axes, and so no rows.
Status EvalNonZero(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> places, PlacesOf(x));
  const auto count = static_cast<int64_t>(places.size());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DType::kInt64, {x.rank(), count}));
  int64_t* to = out->mutable_data<int64_t>().data();
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    for (const int64_t place : places) *to++ = place / strides[axis] % x.dims()[axis];
  }
  return OkStatus();
}

}  // namespace

const OpDef& CompressOp() {
  static const OpDef def = {.name = "Compress",
                            .since = {9, 11},
                            .min_inputs = 2,
                            .eval = EvalCompress,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "Slices where a condition is true"};
  return def;
}
const OpDef& NonZeroOp() {
  static const OpDef def = {.name = "NonZero",
                            .since = {9, 13},
                            .eval = EvalNonZero,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "Indices of the elements that are not 0"};
  return def;
}

}  // namespace quant
