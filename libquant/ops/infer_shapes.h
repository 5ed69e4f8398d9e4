// Type and shape inference that schemas have in common.
#pragma once

#include <utility>

#include "libquant/ops/op_def.h"

namespace quant {

// The floating-point types that most operators of com.microsoft take.
inline TypeRow FloatTypes(std::string name) {
  return {std::move(name), {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}};
}

// Output 0 is like input 0.
inline void InferLikeFirst(InferContext& context) {
  if (!context.inputs.empty() && !context.outputs.empty()) context.outputs[0] = context.inputs[0];
}

// What a normalised row leaves behind, one float32: the dims of `x` with a last one of 1.
inline TypeShape RowStatistic(const TypeShape& x) {
  TypeShape out{DType::kFloat, x.shape};
  if (out.shape && !out.shape->empty()) out.shape->back() = {1, ""};
  return out;
}

}  // namespace quant
