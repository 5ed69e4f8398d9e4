// A constant with its axes in another order, made when its bytes are asked for.
#pragma once

#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {

// Axis i of the result is axis perm[i] of the source; `perm` is a permutation of its axes. The source is held whole
// in memory while the result is made; where only axes of length 1 move, nothing is ever copied.
Tensor Permuted(const Tensor& source, const std::vector<int64_t>& perm);

}  // namespace quant
