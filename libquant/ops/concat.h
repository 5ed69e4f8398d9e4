// How tensors lie beside each other along an axis: Concat and QLinearConcat.
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

}  // namespace quant
