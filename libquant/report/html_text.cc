#include "libquant/report/html_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "libquant/report/plain_text.h"

namespace quant {
namespace {

std::string Escaped(std::string_view plain) {
  std::string out;
  out.reserve(plain.size());
  for (const char c : plain) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

uint32_t HexDigit(char c) { return static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); }

}  // namespace

std::string HtmlText(std::string_view text) { return Escaped(PlainText(text)); }

std::string HtmlElided(std::string_view text, size_t width) { return Escaped(ElidedLine(text, width)); }

std::string Position(double value) {
  std::string out = fmt::format("{:.1f}", value);
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out == "-0" ? "0" : out;
}

std::string ReadableNumber(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::trunc(value) && std::abs(value) < 1e12) {
    std::string out = fmt::format("{:.0f}", std::abs(value));
    for (size_t at = out.size(); at > 3; at -= 3) out.insert(at - 3, 1, ',');
    return (value < 0 ? "-" : "") + out;
  }
  std::string out = fmt::format("{:.{}g}", value, digits);
  // "1e-07" is read as "1e-7".
  const size_t e = out.find('e');
  if (e != std::string::npos && e + 2 < out.size() && out[e + 2] == '0') out.erase(e + 2, 1);
  if (e != std::string::npos && out[e + 1] == '+') out.erase(e + 1, 1);
  return out;
}

std::string Base64OfHex(std::string_view hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  // Three hexadecimal digits are two of base64.
  for (size_t i = 0; i < hex.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = i; j < i + 3; ++j) bits = bits << 4 | (j < hex.size() ? HexDigit(hex[j]) : 0);
    out += kDigits[bits >> 6];
    if (i + 1 < hex.size()) out += kDigits[bits & 63];
  }
  while (out.size() % 4 != 0) out += '=';
  return out;
}

}  // namespace quant
