#include "libquant/calib/value_histogram.h"

#include <cmath>
#include <limits>
#include <random>

#include "libquant/base/parallel.h"
#include "libquant/calib/calibration.h"
#include "libquant/calib/ranges_file.h"
#include "tests/catch.h"

namespace quant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

ValueHistogram Of(const std::vector<float>& values) {
  ValueHistogram h;
  h.Add(values);
  return h;
}

void CheckSame(const ValueHistogram& a, const ValueHistogram& b) {
  CHECK(a.count() == b.count());
  CHECK(a.zeros() == b.zeros());
  CHECK(a.nans() == b.nans());
  CHECK(a.infinities() == b.infinities());
  CHECK(a.min() == b.min());
  CHECK(a.max() == b.max());
  CHECK(a.exponent() == b.exponent());
  CHECK(a.bins() == b.bins());
}

// Values of many magnitudes, subnormal and extreme ones among them.
std::vector<float> Values(int seed, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<float> out(count);
  for (float& x : out) {
    const int power = static_cast<int>(random() % 277) - 149;
    x = std::ldexp(static_cast<float>(random() % 1024) / 1024, power) * (random() % 2 == 0 ? 1.0F : -1.0F);
  }
  return out;
}

TEST_CASE("counts do not depend on order or division") {
  const std::vector<float> values = Values(1, 300000);
  SetThreads(1);
  const ValueHistogram whole = Of(values);
  SetThreads(3);
  CheckSame(Of(values), whole);
  SetThreads(0);
  CheckSame(Of({values.rbegin(), values.rend()}), whole);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{777}, values.size()}) {
    ValueHistogram a = Of({values.begin(), values.begin() + static_cast<ptrdiff_t>(cut)});
    const ValueHistogram b = Of({values.begin() + static_cast<ptrdiff_t>(cut), values.end()});
    ValueHistogram other = b;
    other.Merge(a);
    a.Merge(b);
    CheckSame(a, whole);
    CheckSame(other, whole);
  }
}

TEST_CASE("a bin holds what its edges say") {
  // 1 needs bins of 2^-10: it is bin 1024; -1 is bin -1024; just below 0 is bin -1.
  const ValueHistogram h = Of({1.0F, -1.0F, -1e-20F, 0.0F, -0.0F, 1e-20F});
  CHECK(h.exponent() == -10);
  CHECK(h.bins()[ValueHistogram::kSide + 1024] == 1);
  CHECK(h.bins()[ValueHistogram::kSide - 1024] == 1);
  CHECK(h.bins()[ValueHistogram::kSide - 1] == 1);
  CHECK(h.bins()[ValueHistogram::kSide] == 3);
  CHECK(h.zeros() == 2);
}

TEST_CASE("NaN and infinities are counted apart") {
  const ValueHistogram h = Of({kNan, kInfinity, -kInfinity, 2.0F, kNan});
  CHECK(h.count() == 1);
  CHECK(h.nans() == 2);
  CHECK(h.infinities() == 2);
  CHECK(h.min() == 2);
  CHECK(h.max() == 2);
  CHECK(Of({kNan}).count() == 0);
  CHECK(Of({}).count() == 0);
}

TEST_CASE("ranges of constant, zero and extreme values") {
  const float most = std::numeric_limits<float>::max();
  for (const auto& values : {std::vector<float>{0, 0, 0}, {5, 5}, {-5}, {most, -most}, {1e-45F}, {-1e-45F, 0}}) {
    const ValueHistogram h = Of(values);
    for (const RangeMethod method :
         {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse}) {
      RangeOptions options;
      options.method = method;
      options.percentile = 100;
      const ValueRange range = RangeOf(h, options);
      INFO(NameOf(method) << " " << values[0] << ": " << range.min << " to " << range.max);
      CHECK(range.min >= h.min());
      CHECK(range.max <= h.max());
      CHECK(range.min <= range.max);
      if (method == RangeMethod::kMinMax) CHECK((range.min == h.min() && range.max == h.max()));
    }
  }
}

TEST_CASE("rare large values are clipped by all methods but minmax, common ones by none") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(100000);
  for (float& x : values) x = normal(random);
  for (const bool outlier : {false, true}) {
    if (outlier) values[5] = 400;
    const ValueHistogram h = Of(values);
    for (const RangeMethod method : {RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse}) {
      RangeOptions options;
      options.method = method;
      const ValueRange range = RangeOf(h, options);
      INFO(NameOf(method) << ": " << range.min << " to " << range.max);
      // One element 400 from the rest costs as much as steps of 1.6 cost all others: the least error keeps part of it.
      CHECK(range.max < (method == RangeMethod::kMse ? 400 : 200));
      CHECK(range.max > 2.5F);
      CHECK(range.min < -2.5F);
      CHECK(ClippedPart(h, range) < 0.02);
    }
  }
}

TEST_CASE("a file holds all that was measured, and says so when it does not") {
  Calibration c;
  c.samples = 3;
  c.values["a \"b\"\n"].histogram = Of(Values(2, 5000));
  c.values["a \"b\"\n"].samples = 3;
  c.values["a \"b\"\n"].channel_absmax = {1, 2.5F};
  c.values["never"];
  const std::string text = RangesText(c);
  const auto back = ParseRanges(text);
  REQUIRE(back.ok());
  CHECK(RangesText(back->calibration) == text);
  CHECK(back->ranges.size() == 1);
  for (size_t cut = 0; cut < text.size(); cut += 97) CHECK_FALSE(ParseRanges(text.substr(0, cut)).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return ParseRanges(changed.replace(at, from.size(), to)).status();
  };
  CHECK(ExitCode(with("\"bins\": \"", "\"bins\": \"9*9 ")) == 3);
  CHECK(ExitCode(with("\"bins\": \"", "\"bins\": \"-3 ")) == 3);
  CHECK(ExitCode(with("\"samples\": 3", "\"samples\": 1e300")) == 3);
  CHECK(ExitCode(with("\"exponent\": ", "\"exponent\": -9")) == 3);
  CHECK(ExitCode(with("\"method\": \"minmax\"", "\"method\": \"guess\"")) == 3);
  CHECK(ExitCode(with("\"ranges_version\": 1", "\"ranges_version\": 2")) == 4);
}

}  // namespace
}  // namespace quant
