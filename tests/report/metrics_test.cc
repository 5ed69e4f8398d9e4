#include "libquant/report/metrics.h"

#include <cmath>

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

TEST_CASE("argmax takes the first of equals and never NaN") {
  const auto classes = Argmax(Floats({4, 3}, {1, 3, 3, kNaN, -1, -2, 0, 0, 0, kNaN, kNaN, kNaN}));
  REQUIRE(classes.ok());
  CHECK(*classes == std::vector<int64_t>{1, 1, 0, 0});
  CHECK(!Argmax(Tensor::Scalar(1.0f)).ok());
  CHECK(!Argmax(Floats({2, 0}, {})).ok());
}

}  // namespace
}  // namespace quant
