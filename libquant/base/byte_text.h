// Sizes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace quant {

// "512 B", "1.50 KiB", "3.00 GiB".
std::string Bytes(int64_t bytes);

}  // namespace quant
