#include "libquant/report/table.h"

#include <algorithm>
#include <cctype>

namespace quant {
namespace {

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Characters of UTF-8 text.
size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

std::string Printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return text;
}

bool LooksNumeric(std::string_view cell) {
  if (!cell.empty() && (cell[0] == '-' || cell[0] == '+')) cell.remove_prefix(1);
  if (cell.empty()) return false;
  if (cell == "inf" || cell == "nan") return true;
  if (std::isdigit(static_cast<unsigned char>(cell[0])) == 0) return false;
  // Digits and what belongs to a number, then perhaps a space and a unit.
  const std::string_view number = cell.substr(0, cell.find(' '));
  return number.find_first_not_of("0123456789.,eE+-%") == std::string_view::npos;
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& h : headings_) h = Printable(std::move(h));
}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  for (std::string& c : cells) c = Printable(std::move(c));
  rows_.push_back(std::move(cells));
}

std::string Table::Render() const {
  const size_t columns = headings_.size();
  std::vector<size_t> widths(columns);
  std::vector<char> numeric(columns, 0);
  for (size_t c = 0; c < columns; ++c) {
    widths[c] = WidthOf(headings_[c]);
    size_t filled = 0;
    size_t numbers = 0;
    for (const auto& row : rows_) {
      widths[c] = std::max(widths[c], WidthOf(row[c]));
      filled += row[c].empty() ? 0 : 1;
      numbers += LooksNumeric(row[c]) ? 1 : 0;
    }
    numeric[c] = filled > 0 && filled == numbers;
  }
  std::string out;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string pad(widths[c] - WidthOf(cells[c]), ' ');
      line += (c == 0 ? "" : "  ") + (numeric[c] != 0 ? pad + cells[c] : cells[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add(headings_);
  std::vector<std::string> rule;
  for (size_t width : widths) rule.emplace_back(width, '-');
  add(rule);
  for (const auto& row : rows_) add(row);
  return out;
}

std::string Shortened(std::string_view text, size_t width) {
  constexpr std::string_view kGap = "...";
  if (WidthOf(text) <= width) return std::string(text);
  if (width <= kGap.size()) return std::string(kGap.substr(0, width));
  const size_t head = (width - kGap.size() + 1) / 2;
  const size_t tail = width - kGap.size() - head;
  const size_t total = WidthOf(text);
  std::string out;
  size_t index = 0;  // of the character
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && StartsCharacter(text[i])) ++index;
    if (index == head && StartsCharacter(text[i])) out += kGap;
    if (index < head || index >= total - tail) out += text[i];
  }
  return out;
}

}  // namespace quant
