#include "libquant/ops/one_way_broadcast.h"

#include "libquant/ops/axes.h"

namespace quant {

StatusOr<Tensor> SecondOperand(const KernelContext& context) {
  const Tensor& b = context.in(1);
  if (context.version() >= 7) return b;
  const Dims& dims = context.in(0).dims();
  const auto mismatch = [&] { return DataError("{} does not fit {}", Describe(b), Describe(context.in(0))); };
  if (context.attributes().Int("broadcast", 0) == 0) return b.dims() == dims ? StatusOr<Tensor>(b) : mismatch();
  const auto rank = static_cast<int64_t>(dims.size());
  if (b.rank() > rank) return mismatch();
  int64_t axis = rank - b.rank();
  if (context.attributes().Has("axis") && rank > 0) {
    ASSIGN_OR_RETURN(axis, NormalizeAxis(context.attributes().Int("axis", 0), rank));
  }
  if (axis + b.rank() > rank) return mismatch();
  Dims wide(dims.size(), 1);
  for (size_t i = 0; i < b.dims().size(); ++i) {
    const size_t at = static_cast<size_t>(axis) + i;
    if (b.dims()[i] != 1 && b.dims()[i] != dims[at]) return mismatch();
    wide[at] = b.dims()[i];
  }
  return b.Reshaped(wide);
}

}  // namespace quant
