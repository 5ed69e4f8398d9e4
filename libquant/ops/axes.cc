#include "libquant/ops/axes.h"

#include <algorithm>

namespace quant {

StatusOr<int64_t> NormalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) return DataError("axis {} is outside rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

StatusOr<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) {
    ASSIGN_OR_RETURN(axis, NormalizeAxis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return DataError("an axis is named twice");
  return axes;
}

StatusOr<std::vector<int64_t>> IntsOf(const Tensor& tensor) {
  if (tensor.dtype() == DType::kInt64)
    return std::vector<int64_t>(tensor.data<int64_t>().begin(), tensor.data<int64_t>().end());
  if (tensor.dtype() == DType::kInt32)
    return std::vector<int64_t>(tensor.data<int32_t>().begin(), tensor.data<int32_t>().end());
  return DataError("{} where integers are wanted", Describe(tensor));
}

StatusOr<std::vector<int64_t>> IndicesInto(const Tensor& indices, int64_t dim) {
  ASSIGN_OR_RETURN(std::vector<int64_t> out, IntsOf(indices));
  for (int64_t& i : out) {
    if (i < -dim || i >= dim) return DataError("index {} is outside an axis of {}", i, dim);
    if (i < 0) i += dim;
  }
  return out;
}

StatusOr<std::optional<std::vector<int64_t>>> IntsFrom(const KernelContext& context, int i,
                                                       std::string_view attribute) {
  if (const Tensor* tensor = context.input(i)) {
    ASSIGN_OR_RETURN(std::vector<int64_t> values, IntsOf(*tensor));
    return std::optional(std::move(values));
  }
  if (!attribute.empty() && context.attributes().Has(attribute))
    return std::optional(context.attributes().Ints(attribute));
  return std::optional<std::vector<int64_t>>();
}

AxisSplit SplitAt(const Dims& dims, int64_t axis) {
  const auto a = static_cast<size_t>(axis);
  return {ProductOf(dims, 0, a), dims[a], ProductOf(dims, a + 1, dims.size())};
}

int64_t ProductOf(const Dims& dims, size_t begin, size_t end) {
  int64_t out = 1;
  for (size_t i = begin; i < end; ++i) out *= dims[i];
  return out;
}

}  // namespace quant
