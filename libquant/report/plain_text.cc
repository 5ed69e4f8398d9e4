#include "libquant/report/plain_text.h"

#include <algorithm>
#include <cstdint>

namespace quant {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// One character at the head of text: its length in bytes, 0 when there is no valid one.
size_t Decode(std::string_view text, uint32_t& code) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!Continues(text[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ? 0 : length;
}

bool IsLegal(uint32_t code) {
  if (code < 0x20) return code == '\n';
  if (code >= 0x7F && code <= 0x9F) return false;
  const bool noncharacter = (code & 0xFFFE) == 0xFFFE || (code >= 0xFDD0 && code <= 0xFDEF);
  const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !noncharacter && !turns;
}

}  // namespace

std::string PlainText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = Decode(text, code);
    if (code == '\t' && length == 1) {
      out += ' ';
    } else {
      out += length > 0 && IsLegal(code) ? text.substr(0, length) : kReplacement;
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string PlainLine(std::string_view text) {
  std::string out = PlainText(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

std::string ElidedLine(std::string_view text, size_t width) {
  std::string line = PlainLine(text);
  const auto total = static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return !Continues(c); }));
  if (total <= width || width == 0) return width == 0 ? "" : line;
  const size_t head = width / 2;
  const size_t tail = width - 1 - head;
  std::string out;
  size_t index = 0;  // of the character
  for (const char c : line) {
    if (!Continues(c) && index++ == head) out += kEllipsis;
    // index counts the character that c belongs to.
    if (index <= head || index > total - tail) out += c;
  }
  return out;
}

}  // namespace quant
