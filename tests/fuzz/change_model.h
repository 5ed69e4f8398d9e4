// What the tools that change models do with a file (check, fuse, fixshape, convert), each from the model as it was
// read.
#pragma once

#include <string>

#include "tests/fuzz/case_result.h"

namespace quant {

// Each change must end in a Status; the graph it leaves must verify; and where the model ran before, on inputs and
// values of moderate size, the new one must run and give the same answers: GateError, which no case may end in, says
// what is wrong. The half types are let off the answers: their range is not the model's.
Endings ChangeModel(const std::string& path, const std::string& bytes);

}  // namespace quant
