#include "libquant/numerics/half_tensor.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace quant {
namespace {

std::vector<float> Halves(const Tensor& source) {
  const auto made = HalfTensor("w", source).Materialize();
  INFO(Message(made.status()));
  REQUIRE(made.ok());
  std::vector<float> out;
  for (const float16 h : made->data<float16>()) out.push_back(static_cast<float>(h));
  return out;
}
Tensor Row(const std::vector<float>& values) {
  return Tensor::Of<float>({static_cast<int64_t>(values.size())}, std::span<const float>(values));
}

TEST_CASE("float16 constants are rounded half to even") {
  CHECK(Halves(Row({1, -0.5f, 2049, 2051, 65504, 65519})) == std::vector<float>{1, -0.5f, 2048, 2052, 65504, 65504});
}

TEST_CASE("NaN and infinities stay what they are in float16") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto out = Halves(Row({inf, -inf, std::nanf("")}));
  CHECK(out[0] == inf);
  CHECK(out[1] == -inf);
  CHECK(std::isnan(out[2]));
}

TEST_CASE("values beyond float16 are counted in the error") {
  const Status one = HalfTensor("w", Row({1, 65520})).Materialize().status();
  CHECK(ExitCode(one) == 4);
  CHECK(Message(one).find("weight 'w' has 1 value beyond") != std::string::npos);
  const Status two = HalfTensor("w", Row({-1e30f, 1e9f})).Materialize().status();
  CHECK(Message(two).find("2 values beyond") != std::string::npos);
}

TEST_CASE("float16 constants keep their dims, longer than one piece and empty ones too") {
  CHECK(HalfTensor("w", Tensor::Allocate(DType::kFloat, {3, 0})).Materialize()->dims() == Dims{3, 0});
  std::vector<float> values((size_t{1} << 20) + 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 2048);
  CHECK(Halves(Row(values)) == values);
}

TEST_CASE("values beyond a 16-bit float's largest saturate, and what was lost is counted") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto losses = std::make_shared<HalfLosses>();
  const Tensor half = SaturatedHalfTensor(DType::kFloat16, Row({1, 1e9f, -65520, inf, 1e-12f, 0, 6e-8f}), losses);
  CHECK_FALSE(losses->counted);
  const auto made = half.Materialize();
  REQUIRE(made.ok());
  std::vector<float> out;
  for (const float16 h : made->data<float16>()) out.push_back(static_cast<float>(h));
  CHECK(out == std::vector<float>{1, 65504, -65504, inf, 0, 0, std::ldexp(1.0f, -24)});
  CHECK(losses->counted);
  CHECK(losses->saturated == 2);
  CHECK(losses->to_zero == 1);
  REQUIRE(half.Materialize().ok());
  CHECK(losses->saturated == 2);
}

TEST_CASE("bfloat16 has float32's range") {
  const auto losses = std::make_shared<HalfLosses>();
  const auto made = SaturatedHalfTensor(DType::kBfloat16, Row({1, 1e30f, 3.4028235e38f, 1e-30f}), losses).Materialize();
  REQUIRE(made.ok());
  CHECK(static_cast<float>(made->data<bfloat16>()[2]) == static_cast<float>(std::numeric_limits<bfloat16>::max()));
  CHECK(losses->saturated == 1);
  CHECK(losses->to_zero == 0);
}

}  // namespace
}  // namespace quant
