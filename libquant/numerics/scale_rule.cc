#include "libquant/numerics/scale_rule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace quant {
namespace {

constexpr double kSmallestNormalHalf = 0x1p-14;
constexpr double kSmallestHalf = 0x1p-24;
constexpr double kLargestHalf = 65504;
constexpr double kSmallestFloat = std::numeric_limits<float>::min();

// Rounds a double to float16's 11 significant bits, half to even, in one step. Below the smallest normal number the
// result is meaningless.
inline double RoundToHalf(double value) {
  constexpr int kDropped = 52 - 10;
  auto bits = std::bit_cast<uint64_t>(value);
  bits += ((uint64_t{1} << (kDropped - 1)) - 1) + ((bits >> kDropped) & 1);
  bits &= ~((uint64_t{1} << kDropped) - 1);
  return std::bit_cast<double>(bits);
}

// `magnitude` >= 0.
template <bool kHalf>
inline float Store(double magnitude) {
  if constexpr (kHalf) {
    // Adding a number whose last bit is float16's smallest rounds to multiples of that.
    constexpr double kRounder = 0x1.8p28;
    const double fixed = (magnitude + kRounder) - kRounder;
    const double rounded = magnitude < kSmallestNormalHalf ? fixed : RoundToHalf(magnitude);
    const double raised = rounded < kSmallestHalf ? kSmallestHalf : rounded;
    return raised > kLargestHalf ? std::numeric_limits<float>::infinity() : static_cast<float>(raised);
  } else {
    // Raising before rounding gives the same: what is below the smallest normal number rounds to at most it.
    return static_cast<float>(magnitude < kSmallestFloat ? kSmallestFloat : magnitude);
  }
}

// Scale 1 for groups of zeros; whether all scales are finite and, for float16, so is every code times its scale. A loop
// of its own: the compiler does not vectorize the selection together with the rounding.
template <bool kHalf>
bool OneForZeros(int64_t count, const float* __restrict min, const float* __restrict max, float* __restrict scale) {
  int32_t infinite = 0;
  for (int64_t i = 0; i < count; ++i) {
    scale[i] = min[i] == max[i] ? 1.0f : scale[i];
    infinite += scale[i] > std::numeric_limits<float>::max();
    const float largest = max[i] >= -min[i] ? max[i] : -min[i];
    if (kHalf) infinite += largest + scale[i] > static_cast<float>(kLargestHalf);  // rounded up by less than a step
  }
  return infinite == 0;
}

template <bool kHalf>
bool ChooseSymmetric(const ScaleRule& rule, int64_t count, const float* __restrict min, const float* __restrict max,
                     float* __restrict scale, int32_t* __restrict zero_point) {
  const double p = rule.positive_levels;
  const double q = rule.negative_levels;
  for (int64_t i = 0; i < count; ++i) {
    const double a = static_cast<double>(max[i]) / p;
    const double b = -static_cast<double>(min[i]) / q;
    scale[i] = Store<kHalf>(a < b ? b : a);
  }
  std::fill_n(zero_point, count, rule.zero_point);
  return OneForZeros<kHalf>(count, min, max, scale);
}

template <bool kHalf>
bool ChooseAsymmetric(const ScaleRule& rule, int64_t count, const float* __restrict min, const float* __restrict max,
                      float* __restrict scale, int32_t* __restrict zero_point) {
  const double qmin = rule.qmin;
  const double qmax = rule.qmax;
  for (int64_t i = 0; i < count; ++i) {
    scale[i] = Store<kHalf>((static_cast<double>(max[i]) - static_cast<double>(min[i])) / (qmax - qmin));
  }
  const bool fits = OneForZeros<kHalf>(count, min, max, scale);
  for (int64_t i = 0; i < count; ++i) {
    double zero = std::nearbyint(qmin - static_cast<double>(min[i]) / static_cast<double>(scale[i]));
    zero = zero < qmin ? qmin : zero;
    zero = zero > qmax ? qmax : zero;
    zero_point[i] = static_cast<int32_t>(zero);
  }
  return fits;
}

template <bool kHalf>
void ChooseNegative(const ScaleRule& rule, int64_t count, const float* __restrict min, const float* __restrict max,
                    float* __restrict scale) {
  const double q = rule.negative_levels;
  for (int64_t i = 0; i < count; ++i) {
    const float largest = max[i] >= -min[i] ? max[i] : -min[i];
    scale[i] = Store<kHalf>(static_cast<double>(largest) / q);
  }
  // v > 0 makes v / -8 negative.
  for (int64_t i = 0; i < count; ++i) scale[i] = max[i] >= -min[i] ? -scale[i] : scale[i];
  OneForZeros<kHalf>(count, min, max, scale);
}

}  // namespace

ScaleRule RuleOf(const QuantSpec& spec) {
  ScaleRule rule;
  rule.symmetric = spec.scheme == Scheme::kSymmetric;
  rule.half_scales = spec.scale_dtype == DType::kFloat16;
  const bool four_bits = spec.format->bits == 4;
  rule.format = !rule.symmetric && four_bits ? WithSign(*spec.format, false) : *spec.format;
  rule.qmin = rule.format.qmin;
  rule.qmax = rule.format.qmax;
  if (rule.symmetric) {
    const Format& as_signed = WithSign(rule.format, true);
    rule.try_negative = four_bits && spec.allow_negative_scales;
    rule.zero_point = rule.format.is_signed ? 0 : -as_signed.qmin;
    rule.positive_levels = as_signed.qmax;
    rule.negative_levels = four_bits ? -as_signed.qmin : as_signed.qmax;
    if (!four_bits) ++rule.qmin;
    if (spec.most_code > 0) {
      rule.positive_levels = rule.negative_levels = spec.most_code;
      rule.qmin = rule.zero_point - spec.most_code;
      rule.qmax = rule.zero_point + spec.most_code;
    }
  }
  return rule;
}

bool ChooseScales(const ScaleRule& rule, int64_t count, const float* min, const float* max, float* scale,
                  int32_t* zero_point) {
  if (rule.symmetric) {
    return rule.half_scales ? ChooseSymmetric<true>(rule, count, min, max, scale, zero_point)
                            : ChooseSymmetric<false>(rule, count, min, max, scale, zero_point);
  }
  return rule.half_scales ? ChooseAsymmetric<true>(rule, count, min, max, scale, zero_point)
                          : ChooseAsymmetric<false>(rule, count, min, max, scale, zero_point);
}

void ChooseNegativeScales(const ScaleRule& rule, int64_t count, const float* min, const float* max, float* scale) {
  if (rule.half_scales) {
    ChooseNegative<true>(rule, count, min, max, scale);
  } else {
    ChooseNegative<false>(rule, count, min, max, scale);
  }
}

}  // namespace quant
