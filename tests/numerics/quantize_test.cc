// Formats, scale rules and codes of single groups.
#include "libquant/numerics/quantize.h"

#include <cmath>
#include <limits>
#include <random>

#include "libquant/numerics/scale_rule.h"
#include "tests/catch.h"

namespace quant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

QuantSpec Spec(const char* format, Scheme scheme = Scheme::kSymmetric) {
  QuantSpec spec;
  spec.format = FindFormat(format);
  spec.scheme = scheme;
  return spec;
}

StatusOr<ScaleZero> Choose(const QuantSpec& spec, const std::vector<float>& values) {
  RangeStats stats;
  stats.Add(values);
  return ChooseScale(spec, stats, values);
}

std::vector<int32_t> Codes(const Format& format, ScaleZero sz, const std::vector<float>& values) {
  std::vector<int32_t> codes(values.size());
  QuantizeValues(format, sz, values, codes);
  return codes;
}

double Sqnr(const QuantSpec& spec, const std::vector<float>& values, size_t group) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < values.size(); i += group) {
    const std::vector<float> g(values.begin() + i, values.begin() + i + group);
    const ScaleZero sz = Choose(spec, g).value();
    const std::vector<int32_t> codes = Codes(CodeFormat(spec), sz, g);
    for (size_t j = 0; j < group; ++j) {
      const double back = static_cast<float>(codes[j] - sz.zero_point) * sz.scale;
      signal += double{g[j]} * g[j];
      noise += (g[j] - back) * (g[j] - back);
    }
  }
  return 10 * std::log10(signal / noise);
}

TEST_CASE("formats are found by name and type, and paired by sign") {
  for (const Format& f : AllFormats()) {
    CHECK(FindFormat(f.name) == &f);
    CHECK(FindFormat(f.dtype) == &f);
    CHECK(f.qmax - f.qmin == (1 << f.bits) - 1);
    CHECK(NameOf(f.dtype) == f.name);
    CHECK(InfoOf(f.dtype).bits == f.bits);
    CHECK(f.min_opset == (f.bits == 8 ? 10 : 21));
    CHECK(&WithSign(f, f.is_signed) == &f);
    CHECK(WithSign(f, !f.is_signed).bits == f.bits);
    CHECK(WithSign(f, !f.is_signed).is_signed != f.is_signed);
  }
  CHECK(FindFormat("int5") == nullptr);
  CHECK(FindFormat(DType::kFloat) == nullptr);
}

TEST_CASE("every 4- and 8-bit code is met by its own value, ties go to even, what is outside saturates") {
  for (const char* name : {"int4", "uint4", "int8", "uint8"}) {
    const Format& f = *FindFormat(name);
    for (const float scale : {0.25f, -0.25f, 3.0f}) {
      for (int32_t zero = f.qmin; zero <= f.qmax; ++zero) {
        std::vector<float> values;
        std::vector<int32_t> expected;
        for (int32_t code = f.qmin - 3; code <= f.qmax + 3; ++code) {
          const int32_t offset = code - zero;
          values.push_back(static_cast<float>(offset) * scale);
          expected.push_back(std::clamp(code, f.qmin, f.qmax));
          // Halfway up, seen from the offset: the even neighbour.
          values.push_back((static_cast<float>(offset) + 0.5f) * scale);
          expected.push_back(std::clamp(offset % 2 == 0 ? code : code + 1, f.qmin, f.qmax));
        }
        INFO(name << " scale " << scale << " zero point " << zero);
        CHECK(Codes(f, {scale, zero}, values) == expected);
      }
    }
  }
}

TEST_CASE("NaN gives the zero point, infinities and huge values saturate") {
  const Format& f = *FindFormat("uint8");
  CHECK(Codes(f, {1, 7}, {kNan, kInfinity, -kInfinity, 3e38f, -3e38f}) == std::vector<int32_t>{7, 255, 0, 255, 0});
  CHECK(Codes(*FindFormat("int4"), {-1, 0}, {kInfinity, -kInfinity}) == std::vector<int32_t>{-8, 7});
}

TEST_CASE("symmetric scales") {
  CHECK(Choose(Spec("int8"), {1, -254, 3})->scale == 2.0f);
  CHECK(Choose(Spec("int4"), {14, -3})->scale == 2.0f);   // max / 7
  CHECK(Choose(Spec("int4"), {13, -16})->scale == 2.0f);  // -min / 8
  CHECK(Choose(Spec("int16"), {65534})->scale == 2.0f);
  CHECK(Choose(Spec("int4"), {14})->zero_point == 0);
  CHECK(Choose(Spec("uint4"), {14})->zero_point == 8);
  CHECK(Choose(Spec("uint4"), {14})->scale == 2.0f);
  CHECK(Choose(Spec("uint8"), {254})->zero_point == 128);
  CHECK(Choose(Spec("uint8"), {254})->scale == 2.0f);
}

TEST_CASE("the positive 4-bit scale never clips") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> g(32);
    for (float& v : g) v = normal(random);
    const ScaleZero sz = Choose(Spec("int4"), g).value();
    for (float v : g) {
      CHECK(std::nearbyint(v / sz.scale) >= -8);
      CHECK(std::nearbyint(v / sz.scale) <= 7);
    }
  }
}

TEST_CASE("asymmetric scales and zero points") {
  ScaleZero sz = Choose(Spec("int4", Scheme::kAsymmetric), {-4, 11}).value();
  CHECK(sz.scale == 1.0f);
  CHECK(sz.zero_point == 4);
  CHECK(CodeFormat(Spec("int4", Scheme::kAsymmetric)).dtype == DType::kUint4);
  sz = Choose(Spec("int8", Scheme::kAsymmetric), {-100, 155}).value();
  CHECK(sz.scale == 1.0f);
  CHECK(sz.zero_point == -28);
  CHECK(CodeFormat(Spec("int8", Scheme::kAsymmetric)).dtype == DType::kInt8);
  // The range always contains 0.
  sz = Choose(Spec("uint4", Scheme::kAsymmetric), {3, 30}).value();
  CHECK(sz.scale == 2.0f);
  CHECK(sz.zero_point == 0);
  sz = Choose(Spec("uint4", Scheme::kAsymmetric), {-3, -30}).value();
  CHECK(sz.scale == 2.0f);
  CHECK(sz.zero_point == 15);
  // The zero point's own rounding: half to even.
  CHECK(Choose(Spec("uint4", Scheme::kAsymmetric), {-2.5f, 12.5f})->zero_point == 2);
  CHECK(Choose(Spec("uint4", Scheme::kAsymmetric), {-3.5f, 11.5f})->zero_point == 4);
  // 73.5 / 49 is a tie; 73.5 * (1 / 49) falls short of it.
  CHECK(Choose(Spec("uint4", Scheme::kAsymmetric), {-73.5f, 661.5f})->zero_point == 2);
}

TEST_CASE("all-zero and empty groups have scale 1 and codes that mean 0") {
  for (const char* name : {"int4", "uint4", "int8", "uint8"}) {
    for (const Scheme scheme : {Scheme::kSymmetric, Scheme::kAsymmetric}) {
      for (const bool negative : {false, true}) {
        QuantSpec spec = Spec(name, scheme);
        spec.allow_negative_scales = negative;
        for (const std::vector<float>& values : {std::vector<float>{0, -0.0f, 0}, std::vector<float>{}}) {
          const ScaleZero sz = Choose(spec, values).value();
          CHECK(sz.scale == 1.0f);
          for (int32_t code : Codes(CodeFormat(spec), sz, values)) CHECK(code == sz.zero_point);
        }
      }
    }
  }
}

TEST_CASE("one value alone is met to within its scale's rounding") {
  for (const float v : {1.0f, -1.0f, 1e-30f, -3e38f}) {
    for (const char* name : {"int4", "uint4", "int8", "uint8"}) {
      for (const Scheme scheme : {Scheme::kSymmetric, Scheme::kAsymmetric}) {
        const QuantSpec spec = Spec(name, scheme);
        const ScaleZero sz = Choose(spec, {v}).value();
        const int32_t code = Codes(CodeFormat(spec), sz, {v})[0];
        CHECK(static_cast<float>(code - sz.zero_point) * sz.scale == Approx(v).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("negative scales are taken only where allowed and only when strictly better") {
  QuantSpec spec = Spec("int4");
  const std::vector<float> skewed = {8, 1, 2, 3, -1, -2, -3, 4};
  CHECK(Choose(spec, skewed)->scale > 0);
  spec.allow_negative_scales = true;
  CHECK(Choose(spec, skewed)->scale == -1.0f);  // exact: 8 is code -8
  CHECK(Codes(*spec.format, *Choose(spec, skewed), skewed) == std::vector<int32_t>{-8, -1, -2, -3, 1, 2, 3, -4});
  // With v = min both rules give the same scale: the positive one.
  CHECK(Choose(spec, {-8, 1, 2})->scale == 1.0f);
  // A tie in magnitude takes the positive value: -8 cannot be met then, so the positive rule wins.
  CHECK(Choose(spec, {8, -8})->scale > 0);
  // Ternary values are exact under the positive rule, whatever the width of their scale.
  for (const float w : {1.0f, 0.0371f, 3e-5f}) {
    const ScaleZero sz = Choose(spec, {w, -w, 0, w}).value();
    CHECK(sz.scale > 0);
    CHECK(Codes(*spec.format, sz, {w, -w, 0}) == std::vector<int32_t>{7, -7, 0});
  }
  spec.scheme = Scheme::kAsymmetric;
  CHECK(Choose(spec, skewed)->scale > 0);
  QuantSpec bytes = Spec("int8");
  bytes.allow_negative_scales = true;
  CHECK(Choose(bytes, skewed)->scale > 0);
  QuantSpec shifted = Spec("uint4");
  shifted.allow_negative_scales = true;
  CHECK(Choose(shifted, skewed)->scale == -1.0f);
  CHECK(Codes(*shifted.format, *Choose(shifted, skewed), {8, 1})[0] == 0);
}

TEST_CASE("scales below the smallest number that is stored are that number with the same sign") {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  CHECK(Choose(Spec("int8"), {kSmallest})->scale == kSmallest);
  CHECK(Choose(Spec("int8"), {1e-45f})->scale == kSmallest);
  CHECK(Choose(Spec("int8", Scheme::kAsymmetric), {-1e-44f, 1e-44f})->scale == kSmallest);
  CHECK(Codes(*FindFormat("int8"), {kSmallest, 0}, {kSmallest, -kSmallest, 1e-45f}) == std::vector<int32_t>{1, -1, 0});
  QuantSpec half = Spec("int4");
  half.scale_dtype = DType::kFloat16;
  // float16's subnormal numbers are multiples of 2^-24.
  CHECK(Choose(half, {7 * 0x1p-20f})->scale == 0x1p-20f);
  CHECK(Choose(half, {7 * 2.5f * 0x1p-24f})->scale == 2 * 0x1p-24f);
  CHECK(Choose(half, {7 * 3.5f * 0x1p-24f})->scale == 4 * 0x1p-24f);
  CHECK(Choose(half, {1e-9f})->scale == 0x1p-24f);
  CHECK(Choose(half, {7 * 0x1p-24f})->scale == 0x1p-24f);
  half.allow_negative_scales = true;
  // 8 * 2^-24 is met exactly by code -8, and missed by the positive scale, which is 8/7 * 2^-24.
  CHECK(Choose(half, {8 * 0x1p-24f, 0x1p-24f})->scale == -0x1p-24f);
  // Both candidates are raised to 2^-24; 2^-24 is code 1 or -1, exact with either: the positive one.
  CHECK(Choose(half, {0x1p-24f})->scale == 0x1p-24f);
}

TEST_CASE("float16 scales are rounded once, half to even, and overflow is refused") {
  QuantSpec spec = Spec("int8");
  spec.scale_dtype = DType::kFloat16;
  // 1 + 2^-11 is halfway between 1 and the next float16: down to even; a hair more goes up.
  CHECK(Choose(spec, {127 * (1 + 0x1p-11f)})->scale == 1.0f);
  CHECK(Choose(spec, {std::nextafter(127 * (1 + 0x1p-11f), 1000.0f)})->scale == 1.0f + 0x1p-10f);
  CHECK(Choose(spec, {127 * (1 + 3 * 0x1p-11f)})->scale == 1.0f + 0x1p-9f);
  // What a code stands for must be a float16 too.
  CHECK(Choose(spec, {64000.0f}).ok());
  CHECK(ExitCode(Choose(spec, {65504.0f}).status()) == 4);
  CHECK(ExitCode(Choose(spec, {-1e5f}).status()) == 4);
  CHECK(ExitCode(Choose(spec, {127 * 65504.0f}).status()) == 4);
  const auto refused = Choose(spec, {127 * 65520.0f});
  REQUIRE(!refused.ok());
  CHECK(ExitCode(refused.status()) == 4);
  spec.scheme = Scheme::kAsymmetric;
  CHECK(ExitCode(Choose(spec, {-255 * 40000.0f, 255 * 40000.0f}).status()) == 4);
}

TEST_CASE("NaN and infinity are refused, or clamped within their group") {
  QuantSpec spec = Spec("int8");
  const std::vector<float> values = {kNan, 2, -127, kInfinity, -kInfinity};
  const auto refused = Choose(spec, values);
  REQUIRE(!refused.ok());
  CHECK(ExitCode(refused.status()) == 3);
  CHECK(Message(refused.status()).find('3') != std::string::npos);
  spec.non_finite = NonFinite::kClamp;
  CHECK(Choose(spec, values)->scale == 1.0f);
  spec.scheme = Scheme::kAsymmetric;
  // +inf widens the range to what the largest magnitude allows.
  CHECK(Choose(spec, {-255, kInfinity})->scale == 2.0f);
  CHECK(Choose(spec, {-255, -kInfinity})->scale == 1.0f);
  CHECK(Choose(spec, {kNan, kInfinity})->scale == 1.0f);
}

TEST_CASE("range statistics merge exactly") {
  RangeStats a;
  a.Add(std::vector<float>{1, -2});
  RangeStats b;
  b.Add(std::vector<float>{2, kNan, -kInfinity});
  a.Merge(b);
  CHECK(a.min == -2);
  CHECK(a.max == 2);
  CHECK(a.signed_absmax() == 2);
  CHECK(a.non_finite == 2);
  CHECK(a.negative_infinity);
  CHECK(!a.positive_infinity);
}

TEST_CASE("signal to noise of gaussian groups of 32 is what the design measured") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(1 << 19);
  for (float& v : values) v = normal(random);
  QuantSpec spec = Spec("int4");
  const double positive = Sqnr(spec, values, 32);
  CHECK(positive > 20.3);
  CHECK(positive < 21.3);
  spec.allow_negative_scales = true;
  const double both = Sqnr(spec, values, 32);
  CHECK(both > 21.2);
  CHECK(both < 21.6);
}

}  // namespace
}  // namespace quant
