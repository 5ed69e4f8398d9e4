// The equation of Einsum, read against the operands' dims.
//   equation := term ("," term)* ["->" term],  term := letters, with at most one "..." among them
// "..." stands for the axes that letters leave over; those of different operands are aligned at the last one and
// broadcast. Without "->" the output has the axes of "...", then the letters that appear once, in the order of the
// alphabet (capitals first).
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/shape.h"

namespace quant {

// An index of the sum: a letter's character code, or a code above those of letters for an axis of "...".
using EinsumLabel = int;
using EinsumLabels = std::vector<EinsumLabel>;

struct EinsumEquation {
  std::vector<EinsumLabels> inputs;      // a label for each axis of each operand
  EinsumLabels output;                   // none twice, all of them from inputs
  std::map<EinsumLabel, int64_t> sizes;  // an operand's axis has its label's size, or is 1 and repeats
};

StatusOr<EinsumEquation> ReadEinsum(std::string_view equation, const std::vector<Dims>& operands);

}  // namespace quant
