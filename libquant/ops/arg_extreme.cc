// ArgMax and ArgMin: where the extreme of an axis is.
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

template <bool kMax>
Status EvalArg(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const bool last = context.attributes().Int("select_last_index", 0) != 0;
  const auto a = static_cast<size_t>(axis);
  const int64_t length = x.dims()[a];
  if (length == 0) return DataError("axis {} of {} is empty", axis, Describe(x));
  const int64_t outer = ProductOf(x.dims(), 0, a);
  const int64_t inner = ProductOf(x.dims(), a + 1, x.dims().size());
  Dims dims = x.dims();
  dims[a] = 1;
  if (context.attributes().Int("keepdims", 1) == 0) dims.erase(dims.begin() + axis);
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DType::kInt64, std::move(dims)));
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    int64_t* to = out->mutable_data<int64_t>().data();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const T* from = x.data<T>().data() + o * length * inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < length; ++k) {
          const W v = static_cast<W>(from[k * inner]);
          const W top = static_cast<W>(from[best * inner]);
          if ((kMax ? v > top : v < top) || (last && v == top)) best = k;
        }
        to[o * inner + i] = best;
      }
    }
    return OkStatus();
  });
}

}  // namespace

const OpDef& ArgMaxOp() {
  static const OpDef def = {.name = "ArgMax",
                            .since = {1, 11, 12, 13},
                            .eval = EvalArg<true>,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "Position of the largest along an axis"};
  return def;
}
const OpDef& ArgMinOp() {
  static const OpDef def = {.name = "ArgMin",
                            .since = {1, 11, 12, 13},
                            .eval = EvalArg<false>,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "Position of the smallest along an axis"};
  return def;
}

}  // namespace quant
