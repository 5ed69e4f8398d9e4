#include "libquant/report/metrics.h"

#include <cmath>

#include "libquant/base/parallel.h"
#include "tests/catch.h"

namespace quant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
Tensor Make(Dims dims, const std::vector<T>& values) {
  if (values.empty()) return Tensor::Allocate(DTypeOf<T>(), std::move(dims));
  return Tensor::Of<T>(std::move(dims), std::span<const T>(values));
}
Tensor Floats(Dims dims, const std::vector<float>& values) { return Make<float>(std::move(dims), values); }

OutputMetrics Of(const Tensor& reference, const Tensor& got) {
  OutputMetrics m;
  const Status status = m.Add(reference, got);
  INFO(status);
  REQUIRE(status.ok());
  return m;
}

TEST_CASE("metrics of hand numbers") {
  const auto m = Of(Floats({4}, {3, -4, 0, 0}), Floats({4}, {3, -3, 1, 1}));
  CHECK(m.elements() == 4);
  CHECK(m.max_abs() == 1);
  CHECK(m.mean_abs() == 0.75);
  CHECK(m.rmse() == std::sqrt(0.75));
  CHECK(m.relative_rms() == std::sqrt(3.0 / 25.0));
  CHECK(m.sqnr_db() == 10 * std::log10(25.0 / 3.0));
  CHECK(m.cosine() == 21 / (5 * std::sqrt(20.0)));
  CHECK(!m.top1());
  CHECK(m.non_finite() == 0);
}

TEST_CASE("samples add up as one long tensor would") {
  OutputMetrics parts;
  REQUIRE(parts.Add(Floats({2}, {3, -4}), Floats({2}, {3, -3})).ok());
  REQUIRE(parts.Add(Floats({2}, {0, 0}), Floats({2}, {1, 1})).ok());
  const auto whole = Of(Floats({4}, {3, -4, 0, 0}), Floats({4}, {3, -3, 1, 1}));
  CHECK(parts.sqnr_db() == whole.sqnr_db());
  CHECK(parts.rmse() == whole.rmse());
  CHECK(parts.elements() == 4);
}

TEST_CASE("equal and all-zero tensors") {
  const auto equal = Of(Floats({2}, {1, 2}), Floats({2}, {1, 2}));
  CHECK(equal.sqnr_db() == kInf);
  CHECK(equal.relative_rms() == 0);
  CHECK(equal.cosine() == 1);
  const auto zeros = Of(Floats({2}, {0, 0}), Floats({2}, {0, -0.0f}));
  CHECK(zeros.sqnr_db() == kInf);
  CHECK(zeros.cosine() == 1);
  const auto from_nothing = Of(Floats({2}, {0, 0}), Floats({2}, {0, 1}));
  CHECK(from_nothing.sqnr_db() == -kInf);
  CHECK(from_nothing.relative_rms() == kInf);
  CHECK(from_nothing.cosine() == 0);
  const auto nothing = Of(Floats({0}, {}), Floats({0}, {}));
  CHECK(nothing.rmse() == 0);
  CHECK(nothing.mean_abs() == 0);
  CHECK(nothing.sqnr_db() == kInf);
}

TEST_CASE("elements that are not finite agree only with the same") {
  const auto same = Of(Floats({4}, {kInf, -kInf, kNaN, 1}), Floats({4}, {kInf, -kInf, kNaN, 2}));
  CHECK(same.non_finite() == 0);
  CHECK(same.max_abs() == 1);
  for (const auto& [reference, got] : {std::pair{1.0f, kNaN}, {kInf, 1.0f}, {kInf, -kInf}, {kNaN, kInf}}) {
    const auto m = Of(Floats({2}, {1, reference}), Floats({2}, {1, got}));
    CHECK(m.non_finite() == 1);
    CHECK(m.max_abs() == kInf);
    CHECK(m.rmse() == kInf);
    CHECK(m.mean_abs() == kInf);
    CHECK(m.relative_rms() == kInf);
    CHECK(m.sqnr_db() == -kInf);
    CHECK(std::isnan(m.cosine()));
  }
}

TEST_CASE("top-1 counts rows of the last axis") {
  const Tensor reference = Floats({4, 2}, {0, 1, 1, 0, 5, 5, kNaN, 0});
  const Tensor got = Floats({4, 2}, {0, 2, 0, 1, 7, 7, kNaN, 1});
  CHECK(Of(reference, got).top1() == 0.75);
  CHECK(!Of(Floats({2, 1}, {1, 2}), Floats({2, 1}, {1, 2})).top1());
  CHECK(!Of(Make<int64_t>({1, 2}, {1, 2}), Make<int64_t>({1, 2}, {1, 2})).top1());
}

TEST_CASE("tensors of other dims don't compare, and the sentence has both") {
  OutputMetrics m;
  const Status status = m.Add(Floats({1, 2}, {1, 2}), Floats({2}, {1, 2}));
  CHECK(ExitCode(status) == 3);
  CHECK(Message(status) == "dims differ: float32[1x2] in the reference, float32[2] in the other");
}

TEST_CASE("any real types compare") {
  CHECK(Of(Make<int8_t>({2}, {-128, 127}), Make<uint8_t>({2}, {0, 127})).max_abs() == 128);
  CHECK(Of(Make<double>({1}, {1.5}), Make<float16>({1}, {float16(1.25f)})).max_abs() == 0.25);
  Tensor packed = Tensor::Allocate(DType::kInt4, {3});
  packed.mutable_bytes()[0] = std::byte{0x7F};  // -1, 7
  packed.mutable_bytes()[1] = std::byte{0x08};  // -8
  CHECK(Of(packed, Make<int64_t>({3}, {-1, 7, -8})).max_abs() == 0);
  OutputMetrics m;
  CHECK(ExitCode(m.Add(Tensor::Allocate(DType::kComplex64, {1}), Tensor::Allocate(DType::kComplex64, {1}))) == 4);
}

TEST_CASE("peak, ulps, needed tolerances and saturation of hand numbers") {
  const auto m = Of(Floats({4}, {3, -5, 0, 1}), Floats({4}, {3, -5.5f, 0.25f, std::nextafter(1.0f, 2.0f)}));
  CHECK(m.psnr_db() == 20 * std::log10(8 / m.rmse()));
  CHECK(m.max_ulp() == static_cast<double>(0x3e800000));  // from 0 to 0.25
  CHECK(m.needed_rtol() == kInf);                         // nothing relative to 0 is enough
  CHECK(std::abs(m.needed_atol() - (0.5 - 5e-3)) < 1e-12);
  CHECK(!m.saturated());
  CHECK(Of(Floats({1}, {1}), Floats({1}, {std::nextafter(1.0f, 2.0f)})).max_ulp() == 1);
  CHECK(Of(Floats({1}, {0.0f}), Floats({1}, {-0.0f})).max_ulp() == 0);
  CHECK(Of(Make<float16>({1}, {float16(-1.0f)}), Make<float16>({1}, {float16(-2.0f)})).max_ulp() == 1024);
  const auto codes = Of(Make<int8_t>({4}, {-128, 127, 0, 1}), Make<int8_t>({4}, {-128, 127, 0, 1}));
  CHECK(codes.saturated() == 0.5);
  CHECK(!codes.max_ulp());
  CHECK(Of(Make<uint8_t>({4}, {0, 255, 1, 2}), Make<uint8_t>({4}, {0, 255, 1, 2})).saturated() == 0.5);
}

TEST_CASE("divergence is of the rows where they are distributions, else of their softmax") {
  const auto of = [](double p) { return Floats({1, 2}, {static_cast<float>(p), static_cast<float>(1 - p)}); };
  CHECK(std::abs(*Of(of(0.5), of(0.25)).kl() - (0.5 * std::log(2.0) + 0.5 * std::log(0.5 / 0.75))) < 1e-7);
  CHECK(*Of(of(0.5), of(0.5)).kl() == 0);
  const double logits = *Of(Floats({1, 2}, {0, 0}), Floats({1, 2}, {5, 5 + std::log(3.0f)})).kl();
  CHECK(std::abs(logits - (0.5 * std::log(2.0) + 0.5 * std::log(0.5 / 0.75))) < 1e-6);
  CHECK(*Of(of(0.5), Floats({1, 2}, {kNaN, 1})).kl() == kInf);
  CHECK(std::isfinite(*Of(of(0.5), of(0)).kl()));
}

TEST_CASE("top-5 asks whether the reference's favourite is among the candidate's five") {
  const Tensor reference = Floats({2, 6}, {9, 1, 1, 1, 1, 1, 9, 1, 1, 1, 1, 1});
  const Tensor got = Floats({2, 6}, {1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5});
  CHECK(Of(reference, got).top5() == 0.5);
  CHECK(!Of(Floats({1, 5}, {1, 2, 3, 4, 5}), Floats({1, 5}, {1, 2, 3, 4, 5})).top5());
}

TEST_CASE("large tensors give the same sums however many threads there are") {
  std::vector<float> ours(200'001), theirs(ours.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ours[i] = std::sin(static_cast<float>(i));
    theirs[i] = ours[i] + 1e-3f * std::cos(static_cast<float>(i * i % 977));
  }
  const Dims dims = {1, static_cast<int64_t>(ours.size())};
  SetThreads(1);
  const auto one = Of(Floats(dims, ours), Floats(dims, theirs));
  SetThreads(0);
  const auto all = Of(Floats(dims, ours), Floats(dims, theirs));
  CHECK(one.sqnr_db() == all.sqnr_db());
  CHECK(one.kl() == all.kl());
  CHECK(one.cosine() == all.cosine());
}

TEST_CASE("argmax takes the first of equals and never NaN") {
  const auto classes = Argmax(Floats({4, 3}, {1, 3, 3, kNaN, -1, -2, 0, 0, 0, kNaN, kNaN, kNaN}));
  REQUIRE(classes.ok());
  CHECK(*classes == std::vector<int64_t>{1, 1, 0, 0});
  CHECK(!Argmax(Tensor::Scalar(1.0f)).ok());
  CHECK(!Argmax(Floats({2, 0}, {})).ok());
}

}  // namespace
}  // namespace quant
