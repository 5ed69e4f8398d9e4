#include "libquant/numerics/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libquant/numerics/column_kernels.h"
#include "libquant/numerics/scale_rule.h"

namespace quant {
namespace {

// NaN as 0, infinities at the ends of the group's range.
float Clamped(float v, const RangeStats& stats) {
  if (std::isnan(v)) return 0;
  return std::clamp(v, stats.min, stats.max);
}

double SquaredError(const ScaleRule& rule, float scale, const RangeStats& stats, std::span<const float> values) {
  double sum = 0;
  for (float v : values) {
    const float x = Clamped(v, stats);
    ColumnErrors({&x, 1, 1, 1}, &scale, -rule.zero_point + rule.qmin, -rule.zero_point + rule.qmax, &sum);
  }
  return sum;
}

}  // namespace

void RangeStats::Add(std::span<const float> values) {
  constexpr int64_t kLanes = 64;
  constexpr int64_t kPiece = 64 * kLanes;
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t first = 0; first < size; first += kPiece) {
    const float* v = values.data() + first;
    const int64_t count = std::min(kPiece, size - first);
    int64_t done = 0;
    if (CountNonFinite({v, count, 1, count}) == 0) {
      float low[kLanes] = {};
      float high[kLanes] = {};
      ColumnRange({v, kLanes, count / kLanes, kLanes}, low, high);
      min = std::min(min, *std::min_element(low, low + kLanes));
      max = std::max(max, *std::max_element(high, high + kLanes));
      done = count / kLanes * kLanes;
    }
    for (; done < count; ++done) AddOne(v[done]);
  }
}

void RangeStats::AddOne(float value) {
  if (!std::isfinite(value)) {
    ++non_finite;
    positive_infinity |= value > 0;
    negative_infinity |= value < 0;
    return;
  }
  min = std::min(min, value);
  max = std::max(max, value);
}

void RangeStats::Merge(const RangeStats& other) {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  non_finite += other.non_finite;
  positive_infinity |= other.positive_infinity;
  negative_infinity |= other.negative_infinity;
}

void RangeStats::TakeInfinitiesAsLargest() {
  const float largest = absmax();
  if (positive_infinity) max = largest;
  if (negative_infinity) min = -largest;
}

const Format& CodeFormat(const QuantSpec& spec) { return *FindFormat(RuleOf(spec).format.dtype); }

StatusOr<ScaleZero> ChooseScale(const QuantSpec& spec, const RangeStats& stats, std::span<const float> values) {
  if (stats.non_finite > 0 && spec.non_finite == NonFinite::kError) {
    return DataError("{} of the values are NaN or infinite", stats.non_finite);
  }
  const ScaleRule rule = RuleOf(spec);
  RangeStats range = stats;
  range.TakeInfinitiesAsLargest();
  ScaleZero out;
  if (!ChooseScales(rule, 1, &range.min, &range.max, &out.scale, &out.zero_point)) {
    return Unsupported("a scale overflows float16 (values between {} and {}); store scales as float32", range.min,
                       range.max);
  }
  if (rule.try_negative) {
    float negative;
    ChooseNegativeScales(rule, 1, &range.min, &range.max, &negative);
    if (SquaredError(rule, negative, range, values) < SquaredError(rule, out.scale, range, values)) {
      out.scale = negative;
    }
  }
  return out;
}

void QuantizeValues(const Format& format, ScaleZero sz, std::span<const float> values, std::span<int32_t> codes) {
  const auto low = static_cast<float>(format.qmin - sz.zero_point);
  const auto high = static_cast<float>(format.qmax - sz.zero_point);
  for (size_t i = 0; i < values.size(); ++i) {
    float q = std::nearbyint(values[i] / sz.scale);
    q = std::isnan(q) ? 0 : q;
    q = q < low ? low : q;
    q = q > high ? high : q;
    codes[i] = static_cast<int32_t>(q) + sz.zero_point;
  }
}

}  // namespace quant
