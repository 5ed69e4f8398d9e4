#include "tools/units.h"

#include <fmt/format.h>

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
