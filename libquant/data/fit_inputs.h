// Arrays held against a model's inputs.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/input_spec.h"

namespace quant {

// DataError unless `names` are exactly the inputs' names, "label" and "labels" aside.
Status FitNames(const std::string& what, const std::vector<std::string>& names, const std::vector<InputSpec>& inputs);
// "label" or "labels", and no input.
bool IsLabels(const std::string& name, const std::vector<InputSpec>& inputs);

enum class Fit {
  kWhole,  // the array is the input
  kRows,   // each index along its first axis is: that axis is longer than the model's 1, or is dynamic there
};
// DataError, with what was wanted and found, when the array is neither.
StatusOr<Fit> FitArray(const std::string& what, DType dtype, const Dims& dims, const InputSpec& input);

}  // namespace quant
