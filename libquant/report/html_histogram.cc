#include <algorithm>

#include "libquant/report/html_plot.h"
#include "libquant/report/html_series.h"
#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"
#include "libquant/report/plot_axis.h"

namespace quant {
namespace {

constexpr double kWidth = 320, kHeight = 190;
constexpr double kLeft = 56, kRight = kWidth - 12, kTop = 8, kBottom = kHeight - 24;
constexpr size_t kTitleWidth = 40;

std::vector<std::string> NamesOf(const ReportHistogram& histogram) {
  std::vector<std::string> names;
  for (const auto& entry : histogram.counts) names.push_back(entry.first);
  return names;
}

// The first is an area, the others are outlines over it.
std::string Outline(const std::vector<int64_t>& counts, const PlotAxis& y, bool closed) {
  const double base = y.At(0);
  std::string out = fmt::format("M{} {}", kLeft, Position(base));
  for (size_t i = 0; i < counts.size(); ++i) {
    const double right = kLeft + (kRight - kLeft) * static_cast<double>(i + 1) / static_cast<double>(counts.size());
    out += fmt::format("V{}H{}", Position(y.At(static_cast<double>(counts[i]))), Position(right));
  }
  return out + fmt::format("V{}{}", Position(base), closed ? "Z" : "");
}

std::string AxesHtml(const ReportHistogram& histogram, const PlotAxis& y) {
  std::string grid, ticks, text;
  for (const auto& [at, label] : y.Ticks(4)) {
    grid += fmt::format("M{} {}H{}", kLeft, Position(at), kRight);
    text += fmt::format("<text class=\"y\" x=\"{}\" y=\"{}\">{}</text>", kLeft - 6, Position(at + 4), label);
  }
  const PlotAxis x({histogram.low, histogram.high}, false, false, kLeft, kRight);
  for (const auto& [at, label] : x.Ticks(5)) {
    ticks += fmt::format("M{} {}v4", Position(at), kBottom);
    // Texts at the ends would be cut off.
    const double inside = std::clamp(at, kLeft, kRight - 10);
    text += fmt::format("<text class=\"x\" x=\"{}\" y=\"{}\">{}</text>", Position(inside), kBottom + 17, label);
  }
  return fmt::format("<path class=\"grid\" d=\"{}\"/><path class=\"axis\" d=\"M{} {}H{}{}\"/>\n<g>{}</g>\n", grid,
                     kLeft, kBottom, kRight, ticks, text);
}

// What the page's script tells of the bin under the pointer.
std::string BinAttributes(const ReportHistogram& histogram) {
  std::string out =
      fmt::format(" data-low=\"{:.7g}\" data-high=\"{:.7g}\" data-left=\"{}\" data-right=\"{}\" data-bins=\"",
                  histogram.low, histogram.high, kLeft, kRight);
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    out += i == 0 ? "" : ";";
    for (size_t j = 0; j < histogram.counts[i].second.size(); ++j) {
      out += fmt::format("{}{}", j == 0 ? "" : ",", histogram.counts[i].second[j]);
    }
  }
  out += "\" data-names=\"";
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    // The newline parts names: there is none within.
    out += (i == 0 ? "" : "&#10;") + HtmlText(PlainLine(histogram.counts[i].first));
  }
  return out + "\"";
}

std::string HistogramHtml(const ReportHistogram& histogram, bool own_legend) {
  const std::string title = PlainLine(histogram.title);
  std::string out = fmt::format("<figure>\n<figcaption title=\"{}\">{}</figcaption>\n", HtmlText(title),
                                HtmlElided(title, kTitleWidth));
  std::vector<double> values = {0};
  for (const auto& entry : histogram.counts) {
    for (const int64_t count : entry.second) values.push_back(static_cast<double>(count));
  }
  if (values.size() == 1) return out + "<p class=\"empty\">nothing counted</p>\n</figure>\n";
  const PlotAxis y(values, false, true, kBottom, kTop);
  if (own_legend) out += LegendHtml(NamesOf(histogram), false);
  out +=
      fmt::format("<svg class=\"histogram\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{}>\n", kWidth, kHeight,
                  HtmlText(fmt::format("{}: how many values from {} to {}", title, ReadableNumber(histogram.low, 4),
                                       ReadableNumber(histogram.high, 4))),
                  BinAttributes(histogram));
  out += AxesHtml(histogram, y);
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    out += fmt::format("<path class=\"{} s{}\" d=\"{}\"/>\n", i == 0 ? "area" : "outline", SeriesStyle(i),
                       Outline(histogram.counts[i].second, y, i == 0));
  }
  return out + "</svg>\n</figure>\n";
}

}  // namespace

std::string HistogramsHtml(const std::vector<ReportHistogram>& histograms) {
  if (histograms.empty()) return "";
  const bool same = std::all_of(histograms.begin(), histograms.end(),
                                [&](const auto& h) { return NamesOf(h) == NamesOf(histograms[0]); });
  std::string out = same ? LegendHtml(NamesOf(histograms[0]), false) : "";
  out += "<div class=\"histograms\">\n";
  for (const ReportHistogram& histogram : histograms) out += HistogramHtml(histogram, !same);
  return out + "</div>\n";
}

}  // namespace quant
