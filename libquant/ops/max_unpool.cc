// MaxUnpool: MaxPool undone: elements put back where its indices say, zeros elsewhere. Indices are into the output that
// kernel, strides and pads imply; a larger output_shape adds zeros at the ends. Of elements with one index the last
// stays.
#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/strided_copy.h"
#include "libquant/ops/window.h"

namespace quant {
namespace {

struct UnpoolPlan {
  Dims implied, out;
  int64_t implied_size = 0;
};

StatusOr<UnpoolPlan> PlanUnpool(const KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  if (context.in(1).dims() != x.dims()) {
    return DataError("indices of {} for elements of {}", ToString(context.in(1).dims()), ToString(x.dims()));
  }
  const std::vector<int64_t> kernel = context.attributes().Ints("kernel_shape");
  if (static_cast<int64_t>(kernel.size()) != x.rank() - 2) return DataError("kernel_shape is {}", ToString(kernel));
  ASSIGN_OR_RETURN(const Window window,
                   ReadWindow(context.attributes(), WindowKind::kTranspose, std::span(x.dims()).subspan(2), kernel));
  UnpoolPlan plan;
  plan.out = plan.implied = WithSpatial(x.dims()[0], x.dims()[1], window);
  if (const Tensor* shape = context.input(2)) {
    ASSIGN_OR_RETURN(plan.out, IntsOf(*shape));
    bool fits = plan.out.size() == plan.implied.size();
    for (size_t i = 0; i < plan.implied.size() && fits; ++i) fits = plan.out[i] >= plan.implied[i];
    if (!fits) return DataError("output_shape {} for an output of {}", ToString(plan.out), ToString(plan.implied));
  }
  const auto size = CheckedProduct(plan.implied);
  if (!size) return DataError("the output {} overflows", ToString(plan.implied));
  plan.implied_size = *size;
  return plan;
}

// Where element `index` of a dense tensor of dims `from` is in one of dims `to`, each at least as long.
int64_t Moved(int64_t index, const Dims& from, const Dims& to) {
  int64_t at = 0, stride = 1;
  for (size_t i = from.size(); i-- > 0; index /= from[i]) {
    at += index % from[i] * stride;
    stride *= to[i];
  }
  return at;
}

Status EvalMaxUnpool(KernelContext& context) {
  const Tensor &x = context.in(0), &indices = context.in(1);
  ASSIGN_OR_RETURN(const UnpoolPlan plan, PlanUnpool(context));
  if (indices.dtype() != DType::kInt64) return DataError("indices are {}", NameOf(indices.dtype()));
  return WithElementBits(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), plan.out));
    if (y->size() > 0) std::memset(y->mutable_bytes().data(), 0, y->mutable_bytes().size());
    const T* from = reinterpret_cast<const T*>(x.bytes().data());
    T* to = reinterpret_cast<T*>(y->mutable_bytes().data());
    const bool same = plan.out == plan.implied;
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t at = indices.data<int64_t>()[static_cast<size_t>(i)];
      if (at < 0 || at >= plan.implied_size) {
        return DataError("index {} is outside an output of {}", at, ToString(plan.implied));
      }
      to[same ? at : Moved(at, plan.implied, plan.out)] = from[i];
    }
    return OkStatus();
  });
}

}  // namespace

const OpDef& MaxUnpoolOp() {
  static const OpDef def = {.name = "MaxUnpool",
                            .since = {9, 11, 22},
                            .min_inputs = 2,
                            .eval = EvalMaxUnpool,
                            .role = FloatOnly{},
                            .exactness = Exactness::kExact,
                            .summary = "MaxPool undone, with zeros where nothing was picked"};
  return def;
}

}  // namespace quant
