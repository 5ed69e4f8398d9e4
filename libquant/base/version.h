// Which Nibble this is.
#pragma once

#include <string_view>

namespace quant {

// "0.1.0".
std::string_view NibbleVersion();

}  // namespace quant
