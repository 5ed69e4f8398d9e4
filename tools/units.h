// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "libquant/base/byte_text.h"

namespace quant {

// "1,234,567".
std::string Grouped(int64_t number);
// Six significant digits: "0.123457", "1.5e-08", "inf".
std::string Real(double value);

// Control characters as "?", line ends aside: names come from files and must not drive a terminal.
std::string Printable(std::string text);

// Peak resident memory of this process so far (VmHWM of /proc/self/status), file-mapped pages included; 0 when the
// system does not say.
int64_t PeakResidentBytes();

}  // namespace quant
