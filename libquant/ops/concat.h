// Putting tensors together and taking them apart along an axis: Concat, QLinearConcat, Split, the sequence operators.
#pragma once

#include <vector>

#include "libquant/ops/op_def.h"

namespace quant {

struct ConcatPlan {
  Dims dims;
  int64_t outer = 1, row = 0;  // the result is `outer` rows of `row` elements
  std::vector<int64_t> runs;   // elements that each part has in a row
};

// DataError when a part is null, of another type, or doesn't fit beside the first one. At least one part.
StatusOr<ConcatPlan> PlanConcat(const std::vector<const Tensor*>& parts, int64_t axis);

// Output 0: the parts one after another, as PlanConcat says.
Status ConcatTensors(KernelContext& context, const std::vector<const Tensor*>& parts, int64_t axis);

// Elements [begin, begin + length) along an axis, which the caller has checked, as a tensor of its own.
StatusOr<Tensor> PartAlong(const KernelContext& context, const Tensor& x, int64_t axis, int64_t begin, int64_t length);

}  // namespace quant
