// Damage to a tensor that still is one: its data keep the length that type and dims ask for.
#pragma once

#include <cstdint>
#include <string>

#include "libquant/model/onnx_version.h"
#include "tests/fuzz/odd_values.h"

namespace quant {

// Changes a value, the dims, or the element type. Tensors of strings stay as they are.
void MutateTensor(onnx::TensorProto& tensor, Random& random);

}  // namespace quant
