// A float32 constant in a 16-bit float type, rounded half to even while it is streamed.
#pragma once

#include <memory>
#include <string>

#include "libquant/ir/tensor.h"

namespace quant {

// float16. Nothing is read yet; `name` is for errors. While producing: Unsupported, with the count, when finite values
// are beyond float16's largest (65504). NaN and infinities stay what they are.
Tensor HalfTensor(std::string name, const Tensor& source);

// What rounding did to a constant; known once it has been produced.
struct HalfLosses {
  int64_t saturated = 0;  // finite values beyond the type's largest
  int64_t to_zero = 0;    // values other than 0 that became 0
  bool counted = false;
};

// float16 or bfloat16. Finite values beyond the type's largest become it; NaN and infinities stay. Each production
// counts anew.
Tensor SaturatedHalfTensor(DType type, const Tensor& source, std::shared_ptr<HalfLosses> losses);

}  // namespace quant
