// OneHot: a new axis of `depth`, on values where the index says, off values elsewhere. Indices outside the axis set
// nothing; from opset 11 on, negative ones count from its end.
#include <algorithm>

#include "libquant/ops/axes.h"
#include "libquant/ops/convert_number.h"
#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

// Elements of any number type, cut to integers.
StatusOr<std::vector<int64_t>> WholeNumbers(const Tensor& tensor) {
  std::vector<int64_t> out(static_cast<size_t>(tensor.size()));
  RETURN_IF_ERROR(WithNumber(tensor.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    const auto in = tensor.data<T>();
    std::transform(in.begin(), in.end(), out.begin(), [](T v) { return ConvertNumber<int64_t>(v); });
    return OkStatus();
  }));
  return out;
}

Status EvalOneHot(KernelContext& context) {
  const Tensor &indices = context.in(0), &values = context.in(2);
  if (context.in(1).size() != 1) return DataError("the depth is {}", Describe(context.in(1)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> depths, WholeNumbers(context.in(1)));
  const int64_t depth = depths[0];
  if (depth < 0) return DataError("the depth is {}", depth);
  if (values.dims() != Dims{2}) return DataError("off and on value are {}", Describe(values));
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", -1), indices.rank() + 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> places, WholeNumbers(indices));
  Dims dims = indices.dims();
  dims.insert(dims.begin() + axis, depth);
  return WithElementBits(values.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, values.dtype(), dims));
    T* to = out->mutable_data<T>().data();
    const T off = values.data<T>()[0], on = values.data<T>()[1];
    std::fill_n(to, out->size(), off);
    if (out->size() == 0) return OkStatus();
    const int64_t inner = SplitAt(dims, axis).inner;
    for (size_t i = 0; i < places.size(); ++i) {
      const bool from_end = places[i] < 0 && context.version() >= 11;
      const int64_t place = from_end ? places[i] + depth : places[i];
      const auto at = static_cast<int64_t>(i);
      if (place >= 0 && place < depth) to[(at / inner * depth + place) * inner + at % inner] = on;
    }
    return OkStatus();
  });
}

}  // namespace

const OpDef& OneHotOp() {
  static const OpDef def = {.name = "OneHot",
                            .since = {9, 11},
                            .min_inputs = 3,
                            .eval = EvalOneHot,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "A new axis with one element set for each index"};
  return def;
}

}  // namespace quant
