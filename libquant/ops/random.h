// Nodes whose results differ from run to run: nothing may evaluate them ahead or take two of them for one.
#pragma once

#include <cstdint>
#include <string_view>

#include "libquant/ir/graph.h"

namespace quant {

// Operators that always do.
bool DrawsRandomNumbers(std::string_view domain, std::string_view op_type);
// The node does, or may: a Dropout that is not known to be out of training. `version` is its domain's.
bool MayDrawRandomNumbers(const Node& node, int64_t version);

}  // namespace quant
