// Elements of any real tensor as doubles.
#pragma once

#include <span>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

// Elements [begin, begin + out.size()) of an owned tensor. Unsupported for strings and complex
// numbers.
Status ReadAsDouble(const Tensor& tensor, int64_t begin, std::span<double> out);

}  // namespace quant
