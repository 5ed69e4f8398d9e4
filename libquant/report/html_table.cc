#include "libquant/report/html_table.h"

#include <algorithm>
#include <cmath>

#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"

namespace quant {
namespace {

constexpr size_t kLongWord = 52;
constexpr size_t kManyRows = 30;  // past which a table scrolls by itself and can be filtered

// Names that can't be broken; sentences can, and stay whole.
bool IsLongName(std::string_view plain) {
  size_t word = 0;
  for (const char c : plain) {
    word = c == ' ' ? 0 : word + 1;
    if (word > kLongWord) return true;
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

// The parser supplies the end tags of cells and rows.
std::string CellHtml(const ReportCell& cell) {
  const std::string plain = PlainLine(cell.text);
  if (!IsLongName(plain)) return "<td" + NumberAttribute(cell) + ">" + HtmlText(plain);
  return fmt::format("<td{} title=\"{}\">{}", NumberAttribute(cell), HtmlText(plain), HtmlElided(plain, kLongWord));
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
  std::string out = fmt::format(
      "<div class=\"table{}\" tabindex=\"0\" role=\"region\" aria-label=\"table of {} rows\"><table>\n<thead><tr>",
      many ? " many" : "", table.rows.size());
  for (size_t c = 0; c < table.columns.size(); ++c) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", IsNumeric(table, c) ? " class=\"num\"" : "",
                       HtmlText(PlainLine(table.columns[c])));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t c = 0; c < std::min(row.size(), table.columns.size()); ++c) out += CellHtml(row[c]);
    out += "\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace quant
