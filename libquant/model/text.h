// ONNX's text syntax, for tests and `inspect --text`.
#pragma once

#include <string>
#include <string_view>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// DataError with ONNX's message and position when it does not parse.
StatusOr<Model> ParseModelText(std::string_view text);
// Prints the model; 4-bit initializers, which ONNX's printer leaves out, are printed as numbers.
StatusOr<std::string> PrintModelText(const Model& model);

}  // namespace quant
