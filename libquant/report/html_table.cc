#include "libquant/report/html_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"

namespace quant {
namespace {

constexpr size_t kWideTable = 5;  // columns from which names are shortened more
constexpr size_t kWordInWide = 48;
constexpr size_t kWord = 64;  // as long as a SHA-256
constexpr size_t kRowsWithBars = 60;
constexpr size_t kManyRows = 30;  // past which a table scrolls by itself and can be filtered

// Names that can't be broken; sentences can, and stay whole.
bool IsLongName(std::string_view plain, size_t width) {
  size_t word = 0;
  for (const char c : plain) {
    word = c == ' ' ? 0 : word + 1;
    if (word > width) return true;
  }
  return false;
}

std::string NumberAttribute(const ReportCell& cell) {
  if (!cell.number) return "";
  const double v = *cell.number;
  const std::string written = std::isnan(v)   ? "nan"
                              : std::isinf(v) ? (v > 0 ? "inf" : "-inf")
                                              : fmt::format("{:.7g}", v);
  return written == cell.text ? " data-v" : " data-v=" + written;
}

// 97.2 of "97.2 %".
std::optional<double> PercentOf(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, text.data() + text.size());
  if (error != std::errc() || (rest != "%" && rest != " %") || !(value >= 0 && value <= 100)) return std::nullopt;
  return value;
}

// Whether all numbers of a column are parts of a whole.
bool IsOfPercents(const ReportTable& table, size_t column) {
  if (table.rows.size() > kRowsWithBars) return false;
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return column >= row.size() || row[column].text.empty() || PercentOf(row[column].text);
  });
}

// The next tag ends a cell.
std::string CellHtml(const ReportCell& cell, size_t width, bool bar) {
  const std::string plain = PlainLine(cell.text);
  std::string out = "<td" + NumberAttribute(cell);
  if (plain.starts_with("✓")) out += " class=good";
  if (plain.starts_with("✗")) out += " class=bad";
  if (const auto percent = PercentOf(plain); bar && percent) {
    out += fmt::format(" class=part-of style=\"--part:{}%\"", Position(*percent));
  }
  if (!IsLongName(plain, width)) return out + ">" + HtmlText(plain);
  return fmt::format("{} title=\"{}\">{}", out, HtmlText(plain), HtmlElided(plain, width));
}

bool IsNumeric(const ReportTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return column < row.size() && row[column].number; });
}

}  // namespace

std::string TableHtml(const ReportTable& table) {
  if (table.rows.empty()) return "<p class=\"empty\">none</p>\n";
  const bool many = table.rows.size() > kManyRows;
  // What scrolls must be reachable from the keyboard.
  std::string out =
      many ? fmt::format("<div class=\"table many\" tabindex=\"0\" role=\"region\" aria-label=\"{} rows\">",
                         table.rows.size())
           : "<div class=\"table\">";
  out += "<table>\n<thead><tr>";
  std::vector<bool> bars;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    bars.push_back(IsOfPercents(table, c));
    out += fmt::format("<th scope=\"col\"{}>{}</th>", IsNumeric(table, c) ? " class=\"num\"" : "",
                       HtmlText(PlainLine(table.columns[c])));
  }
  out += "</tr></thead>\n<tbody>\n";
  const size_t width = table.columns.size() >= kWideTable ? kWordInWide : kWord;
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t c = 0; c < std::min(row.size(), table.columns.size()); ++c) out += CellHtml(row[c], width, bars[c]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace quant
