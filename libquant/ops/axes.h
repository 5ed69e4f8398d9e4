// Axes and small integer lists, as attributes or as input tensors, checked against a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libquant/ops/op_def.h"

namespace quant {

// An axis counted from the front. DataError unless -rank <= axis < rank.
StatusOr<int64_t> NormalizeAxis(int64_t axis, int64_t rank);
// All of them, sorted; DataError when one is out of range or named twice.
StatusOr<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int64_t rank);
// Elements of an int32 or int64 tensor of any shape. DataError for other types.
StatusOr<std::vector<int64_t>> IntsOf(const Tensor& tensor);
// The same as indices of an axis of `dim`, negative ones counted from its end; DataError for one outside.
StatusOr<std::vector<int64_t>> IndicesInto(const Tensor& indices, int64_t dim);
// Input `i` when it is there, else the attribute; nullopt when neither is.
StatusOr<std::optional<std::vector<int64_t>>> IntsFrom(const KernelContext& context, int i, std::string_view attribute);

// A tensor around one of its axes: [outer, length, inner].
struct AxisSplit {
  int64_t outer = 1, length = 1, inner = 1;
};
AxisSplit SplitAt(const Dims& dims, int64_t axis);

// Product of dims[begin, end).
int64_t ProductOf(const Dims& dims, size_t begin, size_t end);

}  // namespace quant
