// A float32 constant as float16, rounded half to even while it is streamed.
#pragma once

#include <string>

#include "libquant/ir/tensor.h"

namespace quant {

// Nothing is read yet; `name` is for errors. While producing: Unsupported, with the count, when finite values are
// beyond float16's largest (65504). NaN and infinities stay what they are.
Tensor HalfTensor(std::string name, const Tensor& source);

}  // namespace quant
