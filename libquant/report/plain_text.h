// Names and messages come from files and may hold any bytes: here they become text that every format can carry.
#pragma once

#include <string>
#include <string_view>

namespace quant {

// Valid UTF-8 on one or more lines: bytes that are no UTF-8, control characters except the newline (a tab becomes a
// space), noncharacters, and characters that turn the reading direction are each replaced by U+FFFD.
std::string PlainText(std::string_view text);

// PlainText on one line: newlines are spaces.
std::string PlainLine(std::string_view text);

// At most `width` characters of PlainLine: the middle gives way to an ellipsis.
std::string ElidedLine(std::string_view text, size_t width);

}  // namespace quant
