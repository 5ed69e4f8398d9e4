// How much memory the machine has: the bound of what is asked of it. More would be promised by the system all the same,
// and the process killed when it is used.
#pragma once

#include <cstdint>

namespace quant {

// Bytes; the largest number when the system does not say.
int64_t PhysicalMemory();

}  // namespace quant
