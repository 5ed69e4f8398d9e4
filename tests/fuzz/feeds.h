// Inputs for models that nobody knows: small, seeded, and with the values that break things among them.
#pragma once

#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/input_spec.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

// Dims that are not known are 0 to 5, a rank that is not known 0 to 4; an input that is no tensor is a short list.
// DataError when a declared size is more than 1 MiB.
// With `sound`, only numbers of small size, indices within what they index.
StatusOr<NamedTensors> SeededFeeds(const std::vector<InputSpec>& inputs, uint64_t seed, bool sound = false);

}  // namespace quant
