#include "libquant/calib/value_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"

namespace quant {
namespace {

constexpr int64_t kSide = ValueHistogram::kSide;
constexpr int kSideBits = 11;  // kSide is 2^11
constexpr int64_t kPiece = int64_t{1} << 16;

struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  int64_t finite = 0, zeros = 0, nans = 0;
};

Extremes ExtremesOf(std::span<const float> values) {
  Extremes out;
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const float x : values) {
    const bool finite = x >= -kMost && x <= kMost;
    out.finite += finite ? 1 : 0;
    out.zeros += x == 0 ? 1 : 0;
    out.nans += x != x ? 1 : 0;
    out.min = finite && x < out.min ? x : out.min;
    out.max = finite && x > out.max ? x : out.max;
  }
  return out;
}

// The least exponent of the width at which magnitudes up to this one have a bin.
int ExponentFor(float magnitude) {
  if (magnitude == 0) return ValueHistogram::kLeastExponent;
  int power = 0;
  std::frexp(magnitude, &power);  // magnitude < 2^power
  return std::max(ValueHistogram::kLeastExponent, power - kSideBits);
}

template <typename Int>
void Count(std::span<const float> values, int exponent, Int* bins) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const double scale = std::ldexp(1.0, -exponent);
  for (const float x : values) {
    if (!(x >= -kMost && x <= kMost)) continue;
    ++bins[static_cast<int64_t>(std::floor(static_cast<double>(x) * scale)) + kSide];
  }
}

}  // namespace

double ValueHistogram::width() const { return std::ldexp(1.0, exponent_); }

void ValueHistogram::Add(std::span<const float> values) {
  const auto size = static_cast<int64_t>(values.size());
  const int64_t pieces = CeilDiv(size, kPiece);
  const auto piece = [&](int64_t i) {
    return values.subspan(static_cast<size_t>(i * kPiece), static_cast<size_t>(std::min(kPiece, size - i * kPiece)));
  };
  std::vector<Extremes> extremes(static_cast<size_t>(pieces));
  ParallelFor(pieces, [&](int64_t i) { extremes[static_cast<size_t>(i)] = ExtremesOf(piece(i)); });
  Extremes all;
  for (const Extremes& e : extremes) {
    all.min = std::min(all.min, e.min);
    all.max = std::max(all.max, e.max);
    all.finite += e.finite;
    all.zeros += e.zeros;
    all.nans += e.nans;
  }
  nans_ += all.nans;
  infinities_ += size - all.finite - all.nans;
  if (all.finite == 0) return;
  min_ = count_ == 0 ? all.min : std::min(min_, all.min);
  max_ = count_ == 0 ? all.max : std::max(max_, all.max);
  count_ += all.finite;
  zeros_ += all.zeros;
  bins_.resize(static_cast<size_t>(2 * kSide));
  WidenTo(ExponentFor(std::max(std::fabs(min_), std::fabs(max_))));
  if (pieces == 1) return Count(values, exponent_, bins_.data());
  std::mutex mutex;
  ParallelFor(pieces, [&](int64_t i) {
    std::vector<uint32_t> counts(bins_.size());
    Count(piece(i), exponent_, counts.data());
    const std::lock_guard lock(mutex);
    for (size_t b = 0; b < counts.size(); ++b) bins_[b] += counts[b];
  });
}

void ValueHistogram::WidenTo(int exponent) {
  const int steps = exponent - exponent_;
  if (steps <= 0) return;
  std::vector<int64_t> wide(bins_.size());
  // An arithmetic shift rounds down, as the bins do.
  const int shift = std::min(steps, 62);
  for (int64_t b = -kSide; b < kSide; ++b)
    wide[static_cast<size_t>((b >> shift) + kSide)] += bins_[static_cast<size_t>(b + kSide)];
  bins_ = std::move(wide);
  exponent_ = exponent;
}

void ValueHistogram::Merge(const ValueHistogram& other) {
  nans_ += other.nans_;
  infinities_ += other.infinities_;
  if (other.count_ == 0) return;
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  zeros_ += other.zeros_;
  bins_.resize(static_cast<size_t>(2 * kSide));
  ValueHistogram same = other;
  const int exponent = std::max(exponent_, other.exponent_);
  WidenTo(exponent);
  same.WidenTo(exponent);
  for (size_t b = 0; b < bins_.size(); ++b) bins_[b] += same.bins_[b];
}

StatusOr<ValueHistogram> ValueHistogram::Of(Parts parts) {
  ValueHistogram out;
  out.zeros_ = parts.zeros;
  out.nans_ = parts.nans;
  out.infinities_ = parts.infinities;
  if (parts.zeros < 0 || parts.nans < 0 || parts.infinities < 0) return DataError("a count below 0");
  if (parts.bins.empty()) return out;
  if (parts.bins.size() != static_cast<size_t>(2 * kSide))
    return DataError("{} bins, not {}", parts.bins.size(), 2 * kSide);
  for (const int64_t n : parts.bins) {
    const auto sum = n < 0 ? std::nullopt : CheckedAdd(out.count_, n);
    if (!sum) return DataError("a bin's count of {}", n);
    out.count_ = *sum;
  }
  out.min_ = parts.min;
  out.max_ = parts.max;
  out.exponent_ = parts.exponent;
  out.bins_ = std::move(parts.bins);
  const float most = std::max(std::fabs(out.min_), std::fabs(out.max_));
  if (out.count_ == 0 || !std::isfinite(most) || out.min_ > out.max_ || out.zeros_ > out.count_ ||
      out.exponent_ != ExponentFor(most)) {
    return DataError("extremes and bins that contradict each other");
  }
  return out;
}

}  // namespace quant
