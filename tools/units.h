// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace quant {

// "1,234,567".
std::string Grouped(int64_t number);
// "512 B", "1.50 KiB", "3.00 GiB".
std::string Bytes(int64_t bytes);
// Six significant digits: "0.123457", "1.5e-08", "inf".
std::string Real(double value);

// Control characters as "?", line ends aside: names come from files and must not drive a terminal.
std::string Printable(std::string text);

// Peak resident memory of this process so far (VmHWM of /proc/self/status), file-mapped pages included; 0 when the
// system does not say.
int64_t PeakResidentBytes();

}  // namespace quant
