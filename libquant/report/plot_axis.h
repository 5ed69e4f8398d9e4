// One axis of a plot: which values it spans, where they lie, which get a tick.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quant {

class PlotAxis {
 public:
  // Spans the finite values (above 0 when logarithmic), widened to round numbers when `round_ends`; values that are all
  // the same, or none, get a span around them. `from` and `to` are positions in the drawing.
  PlotAxis(const std::vector<double>& values, bool logarithmic, bool round_ends, double from, double to);

  // Values that the axis can't hold (infinite ones, and those up to 0 on a logarithmic axis) lie at its edges: past
  // `from` or `to` by `margin`. NaN lies where -inf does.
  double At(double value, double margin = 0) const;
  bool Holds(double value) const;

  double low() const { return low_; }
  double high() const { return high_; }
  // Position and text, rising; at most about `most`.
  std::vector<std::pair<double, std::string>> Ticks(int most) const;

 private:
  double Scaled(double value) const;

  bool logarithmic_;
  double low_ = 0, high_ = 1;  // of the values
  double from_, to_;
};

}  // namespace quant
