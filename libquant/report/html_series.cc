#include "libquant/report/html_series.h"

#include <fmt/format.h>

#include <array>

#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"

namespace quant {
namespace {

constexpr size_t kStyles = 8;
constexpr size_t kNameWidth = 60;

// Relative to the mark's middle. A dot, a diamond, a triangle, a square, a triangle upside down, a cross, a bar, a
// plus.
constexpr std::array<const char*, kStyles> kMarks = {
    "h0",
    "m0-5l5 5-5 5-5-5z",
    "m0-5l5 8.5h-10z",
    "m-4-4h8v8h-8z",
    "m0 5l5-8.5h-10z",
    "m-4-2.5l1.5-1.5 2.5 2.5 2.5-2.5 1.5 1.5-2.5 2.5 2.5 2.5-1.5 1.5-2.5-2.5-2.5 2.5-1.5-1.5 2.5-2.5z",
    "m-5-2h10v4h-10z",
    "m-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
};

}  // namespace

size_t SeriesStyle(size_t index) { return index % kStyles; }

std::string MarkAt(size_t style, double x, double y) {
  return fmt::format("M{} {}{}", Position(x), Position(y), kMarks[style]);
}

std::string MarkClass(size_t style, bool fine) {
  if (fine) return fmt::format("dot fine s{}", style);
  return fmt::format("{} s{}", style == 0 ? "dot" : "mark", style);
}

std::string LegendHtml(const std::vector<std::string>& names, bool lines) {
  if (names.empty() || (names.size() == 1 && names[0].empty())) return "";
  std::string out = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const size_t style = SeriesStyle(i);
    out += "<li><svg viewBox=\"0 0 28 12\" width=\"28\" height=\"12\" aria-hidden=\"true\">";
    if (lines) {
      out += fmt::format("<path class=\"line s{0}\" d=\"M0 6H28\"/><path class=\"{1}\" d=\"{2}\"/>", style,
                         MarkClass(style, false), MarkAt(style, 14, 6));
    } else {
      out += fmt::format("<path class=\"{} s{}\" d=\"M2 11V3H26V11\"/>", i == 0 ? "area" : "outline", style);
    }
    const std::string plain = PlainLine(names[i]);
    out += fmt::format("</svg> <span title=\"{}\">{}</span></li>\n", HtmlText(plain), HtmlElided(plain, kNameWidth));
  }
  return out + "</ul>\n";
}

}  // namespace quant
