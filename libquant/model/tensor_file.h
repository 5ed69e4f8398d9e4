// A serialized TensorProto as a file of its own (ONNX test_data_set_*/input_0.pb).
#pragma once

#include <string>
#include <utility>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

// Name (may be empty) and tensor. DataError when it is no tensor.
StatusOr<std::pair<std::string, Tensor>> ReadTensorFile(const std::string& path);

}  // namespace quant
