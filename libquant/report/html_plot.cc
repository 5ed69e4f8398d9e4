#include "libquant/report/html_plot.h"

#include <algorithm>
#include <cmath>

#include "libquant/report/html_series.h"
#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"
#include "libquant/report/plot_axis.h"

namespace quant {
namespace {

// The drawing's units; the page scales it to its width.
constexpr double kWidth = 960, kHeight = 340;
constexpr double kLeft = 68, kRight = kWidth - 20, kTop = 14, kBottom = kHeight - 50;
constexpr double kEdge = 22;     // room for what lies past an end of the y axis
constexpr double kSidePad = 10;  // between the first and last points and the frame
constexpr size_t kDrawn = 4000;  // points of a series past which each stretch keeps its extremes
constexpr size_t kTips = 1000;   // the same for all tooltips of a plot
constexpr size_t kFine = 120;    // points of a series past which marks are small dots
constexpr size_t kLabelWidth = 72;

using Points = std::vector<PlotPoint>;

double OrderOf(double y) { return std::isnan(y) ? -HUGE_VAL : y; }

// At most about `most` points: of each stretch, those with the lowest and the highest y.
Points Thinned(const Points& points, size_t most) {
  if (points.size() <= most) return points;
  const size_t stretches = std::max<size_t>(most / 2, 1);
  Points out;
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + static_cast<ptrdiff_t>(points.size() * i / stretches);
    const auto end = points.begin() + static_cast<ptrdiff_t>(points.size() * (i + 1) / stretches);
    const auto [low, high] = std::minmax_element(
        begin, end, [](const PlotPoint& a, const PlotPoint& b) { return OrderOf(a.y) < OrderOf(b.y); });
    out.push_back(*std::min(low, high));
    if (low != high) out.push_back(*std::max(low, high));
  }
  return out;
}

bool IsPlaced(const PlotPoint& point) { return !std::isnan(point.x); }

// Everything that the parts of one drawing share.
class Drawing {
 public:
  explicit Drawing(const ReportPlot& plot)
      : plot_(plot),
        y_values_(YValues()),
        x_(XValues(), plot.log_x, false, kLeft + kSidePad, kRight - kSidePad),
        y_(y_values_, plot.log_y, true, kBottom - (HasPast(false) ? kEdge : 0), kTop + (HasPast(true) ? kEdge : 0)) {}

  std::string Svg() const {
    std::string out =
        fmt::format("<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" tabindex=\"0\" aria-label=\"{}\">\n",
                    kWidth, kHeight, HtmlText(Summary()));
    out += Axes() + Marks();
    for (size_t i = 0; i < plot_.series.size(); ++i) out += Series(i);
    for (size_t i = 0; i < plot_.series.size(); ++i) out += Tips(i);
    return out + "</svg>\n";
  }

 private:
  std::vector<double> XValues() const {
    std::vector<double> out;
    for (const PlotSeries& series : plot_.series) {
      for (const PlotPoint& point : series.points) out.push_back(point.x);
    }
    return out;
  }

  std::vector<double> YValues() const {
    std::vector<double> out;
    for (const PlotSeries& series : plot_.series) {
      for (const PlotPoint& point : series.points) out.push_back(point.y);
    }
    for (const auto& mark : plot_.marks) out.push_back(mark.first);
    return out;
  }

  // Whether there are values past the top (or bottom) that the y axis can't hold.
  bool HasPast(bool top) const {
    return std::any_of(y_values_.begin(), y_values_.end(), [&](double y) {
      const bool held = std::isfinite(y) && (!plot_.log_y || y > 0);
      return !held && (y > 0) == top;
    });
  }

  std::string Summary() const {
    size_t count = 0;
    for (const PlotSeries& series : plot_.series) count += series.points.size();
    return fmt::format("{}: {} points, {} from {} to {}", PlainLine(plot_.title), count,
                       plot_.y_title.empty() ? "y" : PlainLine(plot_.y_title), ReadableNumber(y_.low(), 4),
                       ReadableNumber(y_.high(), 4));
  }

  std::string Axes() const {
    std::string grid, text;
    for (const auto& [y, label] : y_.Ticks(6)) {
      grid += fmt::format("M{} {}H{}", kLeft, Position(y), kRight);
      text += fmt::format("<text class=\"y\" x=\"{}\" y=\"{}\">{}</text>\n", kLeft - 8, Position(y + 4), label);
    }
    std::string ticks;
    for (const auto& [x, label] : x_.Ticks(10)) {
      // Between layers there is nothing.
      if (OnlyWholeX() && label.find('.') != std::string::npos) continue;
      ticks += fmt::format("M{} {}v5", Position(x), kBottom);
      text += fmt::format("<text class=\"x\" x=\"{}\" y=\"{}\">{}</text>\n", Position(x), kBottom + 19, label);
    }
    for (const bool top : {false, true}) text += EdgeLabel(top);
    text += fmt::format("<text class=\"x title\" x=\"{}\" y=\"{}\">{}</text>\n", (kLeft + kRight) / 2, kHeight - 8,
                        HtmlElided(plot_.x_title, kLabelWidth));
    text += fmt::format("<text class=\"x title\" transform=\"translate(15 {}) rotate(-90)\">{}</text>\n",
                        (kTop + kBottom) / 2, HtmlElided(plot_.y_title, kLabelWidth / 2));
    return fmt::format("<path class=\"grid\" d=\"{}\"/><path class=\"axis\" d=\"M{} {}V{}H{}{}\"/>\n<g>{}</g>\n", grid,
                       kLeft, kTop, kBottom, kRight, ticks, text);
  }

  bool OnlyWholeX() const {
    const std::vector<double> values = XValues();
    return std::all_of(values.begin(), values.end(), [](double x) { return x == std::trunc(x); });
  }

  // What lies past that end.
  std::string EdgeLabel(bool top) const {
    if (!HasPast(top)) return "";
    const auto any = [&](auto holds) { return std::any_of(y_values_.begin(), y_values_.end(), holds); };
    std::string label = top ? "∞" : "";
    const auto add = [&](bool present, const char* name) {
      if (present) label += (label.empty() ? "" : ", ") + std::string(name);
    };
    add(!top && any([](double v) { return v == -HUGE_VAL; }), "−∞");
    add(!top && plot_.log_y && any([](double v) { return std::isfinite(v) && v <= 0; }), "≤ 0");
    add(!top && any([](double v) { return std::isnan(v); }), "NaN");
    const double y = top ? kTop + 4 : kBottom - 4;
    return fmt::format("<text class=\"y edge\" x=\"{}\" y=\"{}\">{}</text>\n", kLeft - 8, Position(y + 4), label);
  }

  double X(const PlotPoint& point) const { return x_.At(point.x, kSidePad / 2); }
  double Y(double value) const { return y_.At(value, kEdge - 4); }

  std::string Marks() const {
    std::string out;
    for (const auto& [value, label] : plot_.marks) {
      out += fmt::format("<path class=\"limit\" d=\"M{} {}H{}\"/>", kLeft, Position(Y(value)), kRight);
      out += fmt::format("<text class=\"limit\" paint-order=\"stroke\" x=\"{}\" y=\"{}\">{}</text>\n", kRight - 4,
                         Position(Y(value) - 5), HtmlElided(label, kLabelWidth));
    }
    return out;
  }

  std::string Series(size_t index) const {
    const PlotSeries& series = plot_.series[index];
    const size_t style = SeriesStyle(index);
    const bool fine = series.points.size() > kFine;
    std::string line, marks;
    bool down = false;  // whether the pen is
    for (const PlotPoint& point : Thinned(series.points, kDrawn)) {
      if (!IsPlaced(point)) continue;
      const double x = X(point);
      const double y = Y(point.y);
      marks += MarkAt(fine ? 0 : style, x, y);
      const bool held = x_.Holds(point.x) && y_.Holds(point.y);
      if (held) line += fmt::format("{}{} {}", down ? " " : "M", Position(x), Position(y));
      down = held;
    }
    std::string out;
    if (series.joined && !line.empty()) out += fmt::format("<path class=\"line s{}\" d=\"{}\"/>\n", style, line);
    if (!marks.empty()) out += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", MarkClass(style, fine), marks);
    return out;
  }

  std::string Tips(size_t index) const {
    const PlotSeries& series = plot_.series[index];
    std::string out = fmt::format("<g class=\"tips s{}\" data-series=\"{}\">\n", SeriesStyle(index),
                                  HtmlElided(series.name, kLabelWidth));
    for (const PlotPoint& point : Thinned(series.points, kTips / plot_.series.size())) {
      if (!IsPlaced(point)) continue;
      const std::string label = point.label.empty() ? PlainLine(plot_.x_title) + " " + ReadableNumber(point.x)
                                                    : ElidedLine(point.label, kLabelWidth);
      out += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"7\"><title>{}: {}</title></circle>\n", Position(X(point)),
                         Position(Y(point.y)), HtmlText(label), ReadableNumber(point.y, 5));
    }
    return out + "</g>\n";
  }

  const ReportPlot& plot_;
  const std::vector<double> y_values_;
  const PlotAxis x_, y_;
};

}  // namespace

std::string PlotHtml(const ReportPlot& plot) {
  std::string out = "<figure>\n<figcaption>" + HtmlText(PlainLine(plot.title)) + "</figcaption>\n";
  const bool any =
      std::any_of(plot.series.begin(), plot.series.end(), [](const PlotSeries& s) { return !s.points.empty(); });
  if (!any) return out + "<p class=\"empty\">nothing to plot</p>\n</figure>\n";
  std::vector<std::string> names;
  for (const PlotSeries& series : plot.series) names.push_back(series.name);
  return out + LegendHtml(names, true) + "<div class=\"wide\">" + Drawing(plot).Svg() + "</div></figure>\n";
}

}  // namespace quant
