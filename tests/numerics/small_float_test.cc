// Floats of 8 and 4 bits: what each code means follows from the format's definition, and rounding must find the
// nearest.
#include "libquant/numerics/small_float.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.h"

namespace quant {
namespace {

const std::vector<DType> kSigned = {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                                    DType::kFloat8E5M2FNUZ, DType::kFloat4E2M1};

int CodesOf(DType dtype) { return 1 << InfoOf(dtype).bits; }

float Value(DType dtype, int code) { return SmallFloatValues(dtype)[static_cast<size_t>(code)]; }

float Largest(DType dtype) {
  float out = 0;
  for (int code = 0; code < CodesOf(dtype); ++code) {
    if (std::isfinite(Value(dtype, code))) out = std::max(out, Value(dtype, code));
  }
  return out;
}

TEST_CASE("small floats reach as far as their formats say") {
  CHECK(Largest(DType::kFloat8E4M3FN) == 448.0F);
  CHECK(Largest(DType::kFloat8E4M3FNUZ) == 240.0F);
  CHECK(Largest(DType::kFloat8E5M2) == 57344.0F);
  CHECK(Largest(DType::kFloat8E5M2FNUZ) == 57344.0F);
  CHECK(Largest(DType::kFloat4E2M1) == 6.0F);
  CHECK(Largest(DType::kFloat8E8M0) == std::ldexp(1.0F, 127));
  CHECK(Value(DType::kFloat8E4M3FN, 1) == std::ldexp(1.0F, -9));
  CHECK(Value(DType::kFloat8E5M2FNUZ, 1) == std::ldexp(1.0F, -17));
  CHECK(Value(DType::kFloat8E8M0, 0) == std::ldexp(1.0F, -127));
}

TEST_CASE("each code of a small float survives the way to a number and back") {
  for (DType dtype : {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
                      DType::kFloat4E2M1, DType::kFloat8E8M0}) {
    for (int code = 0; code < CodesOf(dtype); ++code) {
      const float value = Value(dtype, code);
      INFO(NameOf(dtype) << " code " << code << " is " << value);
      const int back = SmallFloatCode(dtype, value, {.saturate = false});
      if (std::isnan(value)) {
        CHECK(std::isnan(Value(dtype, back)));
      } else {
        CHECK(back == code);
      }
    }
  }
}

TEST_CASE("numbers round to the nearest small float, halves to the even code") {
  for (DType dtype : kSigned) {
    for (int code = 0; code + 1 < CodesOf(dtype) / 2; ++code) {
      const double low = Value(dtype, code), high = Value(dtype, code + 1), middle = (low + high) / 2;
      if (!std::isfinite(high) || std::isnan(high)) continue;
      INFO(NameOf(dtype) << " between codes " << code << " and " << code + 1);
      const int even = code % 2 == 0 ? code : code + 1;
      CHECK(SmallFloatCode(dtype, middle) == even);
      CHECK(SmallFloatCode(dtype, std::nextafter(middle, low)) == code);
      CHECK(SmallFloatCode(dtype, std::nextafter(middle, high)) == code + 1);
    }
  }
}

TEST_CASE("what is out of a small float's range saturates, or is no number any more") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (DType dtype : kSigned) {
    INFO(NameOf(dtype));
    const float largest = Largest(dtype);
    for (const double value : {largest * 1.5, 1e300, kInfinity}) {
      CHECK(Value(dtype, SmallFloatCode(dtype, value)) == largest);
      CHECK(Value(dtype, SmallFloatCode(dtype, -value)) == -largest);
      if (dtype != DType::kFloat4E2M1) {
        CHECK_FALSE(std::isfinite(Value(dtype, SmallFloatCode(dtype, value, {.saturate = false}))));
      }
    }
    // Still nearer to the largest than to what would come next.
    CHECK(Value(dtype, SmallFloatCode(dtype, largest * 1.01, {.saturate = false})) == largest);
  }
}

TEST_CASE("powers of two round up, down or to the nearest") {
  const auto power = [](double value, PowerRounding how, bool saturate = true) {
    return static_cast<int>(SmallFloatCode(DType::kFloat8E8M0, value, {saturate, how})) - 127;
  };
  CHECK(power(4.0, PowerRounding::kUp) == 2);
  CHECK(power(4.1, PowerRounding::kUp) == 3);
  CHECK(power(7.9, PowerRounding::kDown) == 2);
  CHECK(power(5.9, PowerRounding::kNearest) == 2);
  CHECK(power(6.0, PowerRounding::kNearest) == 3);
  CHECK(power(0.0, PowerRounding::kUp) == -127);
  CHECK(power(0.0, PowerRounding::kUp, false) == 128);  // NaN
  CHECK(power(std::ldexp(1.0, -127), PowerRounding::kUp) == -127);
  CHECK(power(std::ldexp(1.2, -127), PowerRounding::kUp) == -126);
  CHECK(power(1e300, PowerRounding::kUp) == 127);
  CHECK(power(1e300, PowerRounding::kNearest, false) == 128);
}

}  // namespace
}  // namespace quant
