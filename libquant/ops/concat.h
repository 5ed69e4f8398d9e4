// Putting tensors together and taking them apart along an axis; shared by Concat, Split and the sequence operators.
#pragma once

#include <span>

#include "libquant/ops/op_def.h"

namespace quant {

// Output 0: the parts (at least one) one after another. DataError when dtypes, ranks or other dims differ.
Status ConcatTensors(KernelContext& context, std::span<const Tensor* const> parts, int64_t axis);

// Elements [begin, begin + length) along an axis, which the caller has checked, as a tensor of its own.
StatusOr<Tensor> PartAlong(const KernelContext& context, const Tensor& x, int64_t axis, int64_t begin, int64_t length);

}  // namespace quant
