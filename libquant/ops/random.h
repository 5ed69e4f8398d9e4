// Operators whose results differ from run to run: nothing may evaluate them ahead or take two of them for one.
#pragma once

#include <string_view>

namespace quant {

bool DrawsRandomNumbers(std::string_view domain, std::string_view op_type);

}  // namespace quant
