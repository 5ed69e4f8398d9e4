#include "tools/units.h"

#include <fmt/format.h>

#include <array>
#include <fstream>

namespace quant {

std::string Grouped(int64_t number) {
  const std::string digits = fmt::format("{}", number);
  const size_t first = number < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Bytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string Real(double value) { return fmt::format("{:.6g}", value); }

std::string Printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7F) c = '?';
  }
  return text;
}

int64_t PeakResidentBytes() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && in >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace quant
