#include "libquant/report/plot_axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libquant/report/html_text.h"

namespace quant {
namespace {

// The least of 1, 2 and 5 times a power of ten that is not below `least`.
double RoundStep(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// "2.5M": ticks have little room.
std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e12 || size < 1e6) return ReadableNumber(value, 4);
  return size >= 1e9 ? ReadableNumber(value / 1e9, 4) + "G" : ReadableNumber(value / 1e6, 4) + "M";
}

constexpr int kEndSteps = 6;  // that an axis is rounded to

}  // namespace

PlotAxis::PlotAxis(const std::vector<double>& values, bool logarithmic, bool round_ends, double from, double to)
    : logarithmic_(logarithmic), from_(from), to_(to) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double v : values) {
    if (!Holds(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  if (low > high) {
    low = logarithmic ? 1 : 0;
    high = logarithmic ? 10 : 1;
  }
  if (logarithmic) {
    low_ = round_ends ? std::pow(10.0, std::floor(std::log10(low) + 1e-9)) : low;
    high_ = round_ends ? std::pow(10.0, std::ceil(std::log10(high) - 1e-9)) : high;
    if (low_ >= high_) {
      low_ /= 10;
      high_ *= 10;
    }
    low_ = std::max(low_, std::numeric_limits<double>::min());
    high_ = std::min(high_, std::numeric_limits<double>::max());
    return;
  }
  // Also where they differ by rounding alone.
  if (high / 2 - low / 2 <= std::max(std::abs(low), std::abs(high)) * 1e-9) {
    const double half = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= half;
    high += half;
  }
  // A span that all but reaches 0 had better start there.
  if (round_ends && low > 0 && low < 0.5 * high) low = 0;
  if (round_ends && high < 0 && high > 0.5 * low) high = 0;
  const double step = RoundStep(high / kEndSteps - low / kEndSteps);
  low_ = round_ends ? std::floor(low / step + 1e-9) * step : low;
  high_ = round_ends ? std::ceil(high / step - 1e-9) * step : high;
}

bool PlotAxis::Holds(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

double PlotAxis::Scaled(double value) const {
  if (logarithmic_) return (std::log10(value) - std::log10(low_)) / (std::log10(high_) - std::log10(low_));
  // Halves, so that the largest doubles don't overflow.
  return (value / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
}

double PlotAxis::At(double value, double margin) const {
  const double direction = to_ > from_ ? 1 : -1;
  if (!Holds(value)) return value > 0 ? to_ + direction * margin : from_ - direction * margin;
  return from_ + (to_ - from_) * Scaled(value);
}

std::vector<std::pair<double, std::string>> PlotAxis::Ticks(int most) const {
  std::vector<std::pair<double, std::string>> out;
  const auto add = [&](double value) {
    const double part = Holds(value) ? Scaled(value) : -1;
    if (part >= -1e-9 && part <= 1 + 1e-9) out.emplace_back(At(value), TickText(value));
  };
  if (logarithmic_) {
    const int first = static_cast<int>(std::floor(std::log10(low_) + 1e-9));
    const int last = static_cast<int>(std::ceil(std::log10(high_) - 1e-9));
    const int stride = std::max(1, (last - first + most - 1) / most);
    for (int e = first; e <= last; e += stride) {
      const double power = std::pow(10.0, e);
      add(power);
      if (last - first > 2) continue;
      add(2 * power);
      add(5 * power);
    }
    if (out.size() > 2) return out;
    out.clear();
  }
  const double step = RoundStep(high_ / most - low_ / most);
  // Also on a logarithmic axis of less than a decade. Multiples of the step, each computed anew: a sum of steps drifts.
  const double first = std::ceil(low_ / step - 1e-9);
  for (int i = 0; i <= most + 1; ++i) add((first + i) * step);
  return out;
}

}  // namespace quant
