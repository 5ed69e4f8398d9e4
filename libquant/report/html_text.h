// What all parts of the HTML page write text and numbers with.
#pragma once

#include <string>
#include <string_view>

namespace quant {

// PlainText that means nothing to HTML, neither between tags nor in a quoted attribute.
std::string HtmlText(std::string_view text);
// The same with the middle of long text left out.
std::string HtmlElided(std::string_view text, size_t width);

// A position in a drawing: one decimal, no ".0", no "-0".
std::string Position(double value);

// "12.5", "1e-7", "1,234,567", "inf": a number as a person reads it, of at most `digits` digits.
std::string ReadableNumber(double value, int digits = 6);

// 32 bytes given as 64 hexadecimal digits, in base64: hashes in a Content-Security-Policy are written so.
std::string Base64OfHex(std::string_view hex);

}  // namespace quant
