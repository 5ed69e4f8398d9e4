// Damage to bytes whose meaning is not known.
#pragma once

#include <string>

#include "tests/fuzz/odd_values.h"

namespace quant {

// One to four of: flipped bits, changed bytes and lengths, pieces left out, doubled, or taken from `donor`.
std::string MutateBytes(std::string bytes, const std::string& donor, Random& random);

}  // namespace quant
