#include "libquant/report/plot_axis.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace quant {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string TextOf(const PlotAxis& axis, int most) {
  std::string out;
  for (const auto& [at, text] : axis.Ticks(most)) out += (out.empty() ? "" : " ") + text;
  return out;
}

TEST_CASE("axes end at round numbers and have round ticks") {
  CHECK(TextOf(PlotAxis({21.3, 47.9}, false, true, 0, 100), 6) == "0 10 20 30 40 50");
  CHECK(TextOf(PlotAxis({31.3, 47.9}, false, true, 0, 100), 6) == "30 35 40 45 50");
  CHECK(TextOf(PlotAxis({-0.3, 0.3}, false, true, 0, 100), 6) == "-0.3 -0.2 -0.1 0 0.1 0.2 0.3");
  CHECK(TextOf(PlotAxis({0, 4e6}, false, true, 0, 100), 4) == "0 1M 2M 3M 4M");
}

TEST_CASE("logarithmic axes have decades") {
  CHECK(TextOf(PlotAxis({0.003, 40}, true, true, 0, 100), 6) == "0.001 0.01 0.1 1 10 100");
  CHECK(TextOf(PlotAxis({2, 40}, true, true, 0, 100), 6) == "1 2 5 10 20 50 100");
  CHECK(TextOf(PlotAxis({1e-12, 1e12}, true, true, 0, 100), 6) == "1e-12 1e-8 0.0001 1 10,000 100M 1e12");
  CHECK(TextOf(PlotAxis({2.1e6, 4.2e6}, true, false, 0, 100), 6) == "2.5M 3M 3.5M 4M");
}

TEST_CASE("values that an axis can't hold lie past its edges") {
  const PlotAxis axis({1, 3, kInf, kNan}, false, false, 100, 0);
  CHECK(axis.At(1) == 100);
  CHECK(axis.At(2) == 50);
  CHECK(axis.At(kInf, 10) == -10);
  CHECK(axis.At(-kInf, 10) == 110);
  CHECK(axis.At(kNan, 10) == 110);
  const PlotAxis log({0, -5, 1, 100}, true, false, 0, 100);
  CHECK(log.At(10) == Approx(50));
  CHECK(log.At(0, 10) == -10);
  CHECK_FALSE(log.Holds(0));
}

TEST_CASE("odd spans still make an axis") {
  for (const bool logarithmic : {false, true}) {
    for (const bool round : {false, true}) {
      for (const std::vector<double>& values :
           {std::vector<double>{}, {5}, {0}, {-3}, {kNan}, {kInf}, {1e308, -1e308}, {1e-300, 2e-300}, {7, 7 + 1e-15}}) {
        const PlotAxis axis(values, logarithmic, round, 0, 100);
        CHECK(axis.low() < axis.high());
        CHECK(axis.Ticks(6).size() < 30);
        for (const double v : values) CHECK(std::isfinite(axis.At(v, 5)));
        for (const auto& [at, text] : axis.Ticks(6)) CHECK((at > -1 && at < 101));
      }
    }
  }
}

}  // namespace
}  // namespace quant
