// A serialized TensorProto, SequenceProto or OptionalProto as a file of its own (ONNX test_data_set_*/input_0.pb).
#pragma once

#include <string>
#include <utility>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Name (may be empty) and tensor. DataError when it is no tensor.
StatusOr<std::pair<std::string, Tensor>> ReadTensorFile(const std::string& path);

// Name (may be empty) and what the file holds for a graph's input or output, whose type says what it is: a tensor, a
// list or nothing, owned. Unsupported for sequences and optionals of anything but tensors and sequences of them.
StatusOr<std::pair<std::string, Tensor>> ReadValueFile(const std::string& path, const Value& value);

}  // namespace quant
