#include "libquant/numerics/small_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quant {
namespace {

constexpr uint8_t kNone = 0;  // 0 is no code of an infinity or a NaN

struct SmallFormat {
  DType dtype;
  int mantissa_bits;
  int bias;
  int sign_bit;
  uint8_t largest;   // code of the largest number
  uint8_t infinity;  // or kNone
  uint8_t nan;
  bool unsigned_zero;  // the code of -0 is the NaN
};

constexpr std::array<SmallFormat, 5> kFormats = {{
    {DType::kFloat8E4M3FN, 3, 7, 0x80, 0x7e, kNone, 0x7f, false},
    {DType::kFloat8E4M3FNUZ, 3, 8, 0x80, 0x7f, kNone, 0x80, true},
    {DType::kFloat8E5M2, 2, 15, 0x80, 0x7b, 0x7c, 0x7e, false},
    {DType::kFloat8E5M2FNUZ, 2, 16, 0x80, 0x7f, kNone, 0x80, true},
    {DType::kFloat4E2M1, 1, 1, 0x08, 0x07, kNone, kNone, false},
}};

constexpr int kPowerBias = 127;  // of E8M0
constexpr uint8_t kPowerNan = 0xff;
constexpr int kPowerLargest = 0xfe;

const SmallFormat& FormatOf(DType dtype) {
  return *std::find_if(kFormats.begin(), kFormats.end() - 1, [&](const SmallFormat& f) { return f.dtype == dtype; });
}

float ValueOf(const SmallFormat& f, int code) {
  const int magnitude = code & (f.sign_bit - 1);
  const bool negative = (code & f.sign_bit) != 0;
  float value = std::numeric_limits<float>::quiet_NaN();
  if (f.unsigned_zero && code == f.nan) return value;
  if (magnitude <= f.largest) {
    const int exponent = magnitude >> f.mantissa_bits, hidden = exponent == 0 ? 0 : 1 << f.mantissa_bits;
    const int mantissa = (magnitude & ((1 << f.mantissa_bits) - 1)) | hidden;
    value = std::ldexp(static_cast<float>(mantissa), std::max(exponent, 1) - f.bias - f.mantissa_bits);
  } else if (magnitude == f.infinity) {
    value = std::numeric_limits<float>::infinity();
  }
  return negative ? -value : value;
}

float PowerOf(int code) {
  return code == kPowerNan ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, code - kPowerBias);
}

std::array<float, 256> ValuesOf(DType dtype) {
  std::array<float, 256> out = {};
  for (int code = 0; code < 256; ++code) {
    out[static_cast<size_t>(code)] = dtype == DType::kFloat8E8M0 ? PowerOf(code) : ValueOf(FormatOf(dtype), code);
  }
  return out;
}

uint8_t PowerCode(double value, const SmallFloatRounding& rounding) {
  const double magnitude = std::abs(value);
  if (std::isnan(magnitude)) return kPowerNan;
  if (std::isinf(magnitude)) return rounding.saturate ? kPowerLargest : kPowerNan;
  if (magnitude < std::ldexp(1.0, -kPowerBias)) return rounding.saturate ? 0 : kPowerNan;
  int exponent = 0;
  const double half = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  int code = exponent - 1 + kPowerBias;
  if ((rounding.power == PowerRounding::kUp && half > 0.5) ||
      (rounding.power == PowerRounding::kNearest && half >= 0.75)) {
    ++code;
  }
  if (code <= kPowerLargest) return static_cast<uint8_t>(code);
  return rounding.saturate ? kPowerLargest : kPowerNan;
}

// The code of a magnitude before the range is looked at. Codes of magnitudes go up with their values, so that a
// mantissa rounded up to the next power of two carries into the exponent by itself.
int MagnitudeCode(const SmallFormat& f, double magnitude) {
  if (magnitude == 0) return 0;
  const int lowest = 1 - f.bias;
  const int exponent = std::max(std::ilogb(magnitude), lowest);
  const double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  return ((exponent - lowest) << f.mantissa_bits) + static_cast<int>(steps);
}

}  // namespace

bool IsSmallFloat(DType dtype) { return InfoOf(dtype).is_float && InfoOf(dtype).bits <= 8; }

const std::array<float, 256>& SmallFloatValues(DType dtype) {
  static const std::array<std::array<float, 256>, 6> tables = {
      ValuesOf(DType::kFloat8E4M3FN),   ValuesOf(DType::kFloat8E4M3FNUZ), ValuesOf(DType::kFloat8E5M2),
      ValuesOf(DType::kFloat8E5M2FNUZ), ValuesOf(DType::kFloat4E2M1),     ValuesOf(DType::kFloat8E8M0)};
  size_t i = 0;
  while (i < kFormats.size() && kFormats[i].dtype != dtype) ++i;
  return tables[i];
}

uint8_t SmallFloatCode(DType dtype, double value, const SmallFloatRounding& rounding) {
  if (dtype == DType::kFloat8E8M0) return PowerCode(value, rounding);
  const SmallFormat& f = FormatOf(dtype);
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? f.sign_bit : 0);
  if (std::isnan(value)) return f.nan == kNone ? static_cast<uint8_t>(f.sign_bit) : f.nan | sign;
  // Twice the largest number is out of range for certain, and its code is still small.
  const double limit = 2.0 * ValueOf(f, f.largest);
  const int code = MagnitudeCode(f, std::min(std::abs(value), limit));
  if (code == 0 && f.unsigned_zero) return 0;
  if (code <= f.largest) return static_cast<uint8_t>(code) | sign;
  if (rounding.saturate || f.nan == kNone) return f.largest | sign;
  return (f.infinity != kNone ? f.infinity : f.nan) | sign;
}

}  // namespace quant
