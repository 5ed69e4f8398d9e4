#include "libquant/calib/range_method.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace quant {
namespace {

constexpr int64_t kSide = ValueHistogram::kSide;
constexpr std::array<std::pair<std::string_view, RangeMethod>, 5> kNames = {
    {{"minmax", RangeMethod::kMinMax},
     {"moving-average", RangeMethod::kMovingAverage},
     {"percentile", RangeMethod::kPercentile},
     {"entropy", RangeMethod::kEntropy},
     {"mse", RangeMethod::kMse}}};

// Bounds of the bins, kept within the extremes.
ValueRange Within(const ValueHistogram& h, double low, double high) {
  ValueRange range;
  range.min = static_cast<float>(std::clamp(low, static_cast<double>(h.min()), static_cast<double>(h.max())));
  range.max = static_cast<float>(std::clamp(high, static_cast<double>(range.min), static_cast<double>(h.max())));
  return range;
}

ValueRange Percentile(const ValueHistogram& h, double percentile) {
  const double outside = static_cast<double>(h.count()) * (1 - percentile / 100) / 2;
  const auto& bins = h.bins();
  size_t low = 0, high = bins.size();
  double below = 0, above = 0;
  while (low < high && below + static_cast<double>(bins[low]) <= outside) below += static_cast<double>(bins[low++]);
  while (high > low && above + static_cast<double>(bins[high - 1]) <= outside)
    above += static_cast<double>(bins[--high]);
  return Within(h, static_cast<double>(static_cast<int64_t>(low) - kSide) * h.width(),
                static_cast<double>(static_cast<int64_t>(high) - kSide) * h.width());
}

// Divergence of the first `kept` magnitudes, what lies above counted at the last, from what `levels` codes make of
// them.
double Divergence(const std::vector<double>& counts, size_t kept, double above, size_t levels) {
  std::vector<double> p(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(kept));
  p.back() += above;
  double total = 0, seen = 0;
  for (const double x : p) total += x;
  std::vector<double> q(kept);
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * kept / levels, end = (level + 1) * kept / levels;
    double sum = 0;
    size_t filled = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += counts[i];
      filled += p[i] > 0 ? 1 : 0;
    }
    for (size_t i = begin; i < end; ++i) q[i] = p[i] > 0 ? sum / static_cast<double>(filled) : 0;
    seen += sum;
  }
  if (total == 0 || seen == 0) return std::numeric_limits<double>::infinity();
  // What the codes leave no room for counts as a small part of one element.
  constexpr double kLeast = 1e-4;
  double divergence = 0;
  for (size_t i = 0; i < kept; ++i) {
    if (p[i] <= 0) continue;
    divergence += p[i] / total * std::log((p[i] / total) / (std::max(q[i], kLeast) / seen));
  }
  return divergence;
}

ValueRange Entropy(const ValueHistogram& h, int bits) {
  // Magnitudes; exact zeros cost nothing whatever the step, so the first bin counts as its neighbour does.
  std::vector<double> counts(static_cast<size_t>(kSide));
  for (int64_t b = -kSide; b < kSide; ++b) {
    counts[static_cast<size_t>(b >= 0 ? b : -b - 1)] += static_cast<double>(h.bins()[static_cast<size_t>(b + kSide)]);
  }
  counts[0] = std::min(counts[0], counts[1]);
  const bool one_sided = h.min() >= 0 || h.max() <= 0;
  const auto levels = static_cast<size_t>(1) << (one_sided ? bits : bits - 1);
  size_t end = counts.size();
  while (end > 1 && counts[end - 1] == 0) --end;
  if (end <= levels) return Within(h, h.min(), h.max());
  constexpr size_t kStep = 8;
  double best = std::numeric_limits<double>::infinity();
  size_t best_kept = end;
  double total = 0;
  for (const double c : counts) total += c;
  double inside = 0;
  for (size_t i = 0; i < levels; ++i) inside += counts[i];
  for (size_t kept = levels; kept <= end; kept += kStep) {
    const double divergence = Divergence(counts, kept, total - inside, levels);
    if (divergence < best) {
      best = divergence;
      best_kept = kept;
    }
    for (size_t i = kept; i < std::min(kept + kStep, end); ++i) inside += counts[i];
  }
  const double limit = static_cast<double>(best_kept) * h.width();
  return best_kept + kStep > end ? Within(h, h.min(), h.max()) : Within(h, -limit, limit);
}

// Sums over bins, so that a range's error is told at once.
class ErrorSums {
 public:
  explicit ErrorSums(const ValueHistogram& h) : width_(h.width()) {
    const size_t n = h.bins().size();
    for (auto* sums : {&count_, &first_, &second_}) sums->assign(n + 1, 0);
    for (size_t i = 0; i < n; ++i) {
      const auto c = static_cast<double>(h.bins()[i]);
      const double x = (static_cast<double>(static_cast<int64_t>(i) - kSide) + 0.5) * width_;
      count_[i + 1] = count_[i] + c;
      first_[i + 1] = first_[i] + c * x;
      second_[i + 1] = second_[i] + c * x * x;
    }
    zeros_ = static_cast<double>(h.zeros());
  }

  double Error(double low, double high, double steps) const {
    const size_t a = IndexOf(low), b = IndexOf(high), n = count_.size() - 1;
    const double step = (std::max(high, 0.0) - std::min(low, 0.0)) / steps;
    const double inside = std::max(0.0, count_[b] - count_[a] - zeros_);  // 0 is exact
    return inside * step * step / 12 + Outside(0, a, low) + Outside(b, n, high);
  }

 private:
  // Squared distances of the elements of bins [begin, end) to a limit.
  double Outside(size_t begin, size_t end, double limit) const {
    const double c = count_[end] - count_[begin], f = first_[end] - first_[begin], s = second_[end] - second_[begin];
    return std::max(0.0, s - 2 * limit * f + c * limit * limit);
  }
  size_t IndexOf(double x) const {
    return static_cast<size_t>(
        std::clamp(std::round(x / width_) + static_cast<double>(kSide), 0.0, static_cast<double>(count_.size() - 1)));
  }
  double width_;
  double zeros_ = 0;
  std::vector<double> count_, first_, second_;
};

ValueRange LeastSquares(const ValueHistogram& h, int bits) {
  const ErrorSums sums(h);
  const double steps = std::ldexp(1.0, bits) - 1;
  constexpr int kParts = 64;
  double best = std::numeric_limits<double>::infinity(), low = h.min(), high = h.max();
  for (int i = kParts; i >= 1; --i) {
    for (int j = kParts; j >= 1; --j) {
      const double a = std::min(0.0, static_cast<double>(h.min())) * i / kParts;
      const double b = std::max(0.0, static_cast<double>(h.max())) * j / kParts;
      const double error = sums.Error(a, b, steps);
      if (error < best) {
        best = error;
        low = i == kParts ? h.min() : a;
        high = j == kParts ? h.max() : b;
      }
      if (h.max() <= 0) break;
    }
    if (h.min() >= 0) break;
  }
  return Within(h, low, high);
}

}  // namespace

std::vector<std::string> RangeMethodNames() {
  std::vector<std::string> names;
  names.reserve(kNames.size());
  for (const auto& entry : kNames) names.emplace_back(entry.first);
  return names;
}

StatusOr<RangeMethod> RangeMethodOf(std::string_view name) {
  for (const auto& [known, method] : kNames) {
    if (known == name) return method;
  }
  return UsageError("there is no method '{}': {}", name, fmt::join(RangeMethodNames(), ", "));
}

std::string_view NameOf(RangeMethod method) {
  for (const auto& [name, known] : kNames) {
    if (known == method) return name;
  }
  return "";
}

ValueRange RangeOf(const ValueHistogram& h, const RangeOptions& options) {
  switch (options.method) {
    case RangeMethod::kPercentile:
      return Percentile(h, options.percentile);
    case RangeMethod::kEntropy:
      return Entropy(h, options.bits);
    case RangeMethod::kMse:
      return LeastSquares(h, options.bits);
    case RangeMethod::kMinMax:
    case RangeMethod::kMovingAverage:
      break;
  }
  return Within(h, h.min(), h.max());
}

double ClippedPart(const ValueHistogram& h, const ValueRange& range) {
  if (h.count() == 0) return 0;
  int64_t outside = 0;
  for (int64_t b = -kSide; b < kSide; ++b) {
    const double low = static_cast<double>(b) * h.width();
    const bool out =
        low >= static_cast<double>(range.max) ? range.max < h.max() : low + h.width() <= static_cast<double>(range.min);
    if (out) outside += h.bins()[static_cast<size_t>(b + kSide)];
  }
  return static_cast<double>(outside) / static_cast<double>(h.count());
}

}  // namespace quant
