// Tables for the terminal: columns aligned, numbers to the right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quant {

class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  // Missing cells are empty; cells past the headings are dropped.
  void AddRow(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }

  // One line per row, headings first, a rule under them; two spaces between columns, none at the end. A column of
  // numbers ("12", "-1.5 dB", "inf", "97 %", empty cells aside) is right-aligned. Control characters in cells are
  // shown as "?", so that a name from a file can't break the table.
  std::string Render() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// At most `width` characters: the middle gives way to "...". The whole text when it is short enough.
std::string Shortened(std::string_view text, size_t width);

}  // namespace quant
