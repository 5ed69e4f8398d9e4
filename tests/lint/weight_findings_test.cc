// Findings about the numbers of constants: each where it belongs, and not beside it.
#include <cmath>
#include <limits>

#include "tests/lint/lint_model.h"

namespace quant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Wave(size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = std::sin(static_cast<float>(i) * 1.7f + 0.1f);
  return out;
}

Tensor Floats(Dims dims, const std::vector<float>& values) { return Tensor::Of<float>(std::move(dims), values); }

// x [2, rows] times w [rows, columns], plus b.
Model Product(Tensor weight, Tensor bias = Floats({1}, {0.5f})) {
  Model model = ModelOf(
      "g (float[2,rows] x) => (float[2,columns] y) <float[1] w = {1}, float[1] b = {1}> { [m] t = MatMul(x, w) [a] y = "
      "Add(t, b) }");
  SetConstant(model, "w", std::move(weight));
  SetConstant(model, "b", std::move(bias));
  return model;
}

Model ProductOf(std::vector<float> values, Dims dims = {64, 32}) { return Product(Floats(std::move(dims), values)); }

std::vector<float> WaveWith(size_t at, float value) {
  std::vector<float> out = Wave(64 * 32);
  out[at] = value;
  return out;
}

TEST_CASE("an ordinary weight is no finding") {
  for (const Finding& f : LintFor(ProductOf(Wave(64 * 32)))) CHECK(KindOf(f.finding).id == "input.dynamic");
}

TEST_CASE("NaN and infinity, but not bounds and masks") {
  CHECK(Found(ProductOf(WaveWith(7, kNan)), "weight.non-finite").at(0).where.at(0) ==
        "w float32[64x32]: 1 NaN, 0 infinite of 2048");
  CHECK(Found(ProductOf(WaveWith(7, -kInf)), "weight.non-finite").size() == 1);
  CHECK(Found(Product(Floats({64, 32}, Wave(2048)), Floats({1}, {-kInf})), "weight.non-finite").empty());
  CHECK(Found(Product(Floats({64, 32}, Wave(2048)), Floats({1}, {kNan})), "weight.non-finite").size() == 1);
  std::vector<float> mask(32, 0.0f);
  mask[3] = -kInf;
  CHECK(Found(Product(Floats({64, 32}, Wave(2048)), Floats({32}, mask)), "weight.non-finite").empty());
  const std::vector<double> wide(64, 1e300);
  CHECK(Found(Product(Tensor::Of<double>({8, 8}, wide)), "weight.non-finite").empty());
}

TEST_CASE("weights of zeros or of one number, but not biases") {
  const Tensor zero_bias = Floats({32}, std::vector<float>(32, 0.0f));
  CHECK(Found(ProductOf(std::vector<float>(2048, 0.0f)), "weight.all-zero").size() == 1);
  CHECK(Found(ProductOf(std::vector<float>(2048, -0.0f)), "weight.all-zero").size() == 1);
  CHECK(Found(ProductOf(std::vector<float>(2048, 1e-40f)), "weight.all-zero").size() == 1);
  CHECK(Found(Product(Floats({64, 32}, Wave(2048)), zero_bias), "weight.all-zero").empty());
  CHECK(Found(ProductOf(std::vector<float>(2048, 0.25f)), "weight.constant").size() == 1);
  CHECK(Found(ProductOf(std::vector<float>(2048, 0.0f)), "weight.constant").empty());
  CHECK(Found(ProductOf(std::vector<float>(9, 0.25f), {3, 3}), "weight.constant").empty());  // a fixed filter
  std::vector<float> almost(2048, 0.25f);
  almost.back() = 0.5f;
  CHECK(Found(ProductOf(almost), "weight.constant").empty());
}

TEST_CASE("a few elements that are far larger than the rest") {
  CHECK(Found(ProductOf(WaveWith(9, 400.0f)), "weight.range").size() == 1);
  CHECK(Found(ProductOf(WaveWith(9, 100.0f)), "weight.range").empty());
  // Zeros of a sparse weight don't count.
  std::vector<float> sparse(2048, 0.0f);
  for (size_t i = 0; i < sparse.size(); i += 100) sparse[i] = 1.0f;
  CHECK(Found(ProductOf(sparse), "weight.range").empty());
}

TEST_CASE("denormals, and what float16 does to constants") {
  CHECK(Found(ProductOf(WaveWith(9, 1e-39f)), "weight.denormal").at(0).where.at(0) == "w float32[64x32]: 1 of 2048");
  CHECK(Found(ProductOf(WaveWith(9, 1.2e-38f)), "weight.denormal").empty());
  CHECK(Found(ProductOf(WaveWith(9, -65520.0f)), "weight.float16-overflow").size() == 1);
  CHECK(Found(ProductOf(WaveWith(9, 65519.0f)), "weight.float16-overflow").empty());
  CHECK(Found(ProductOf(WaveWith(9, kInf)), "weight.float16-overflow").empty());
  const auto epsilon = [](float e) { return Product(Floats({64, 32}, Wave(2048)), Floats({1}, {e})); };
  CHECK(Found(epsilon(1e-12f), "weight.float16-underflow").size() == 1);
  CHECK(Found(epsilon(std::ldexp(1.0f, -25)), "weight.float16-underflow").size() == 1);
  CHECK(Found(epsilon(std::ldexp(1.001f, -25)), "weight.float16-underflow").empty());
  CHECK(Found(ProductOf(WaveWith(9, 1e-12f)), "weight.float16-underflow").empty());  // beside larger ones
  std::vector<float> tiny = Wave(2048);
  for (float& v : tiny) v *= 1e-7f;
  CHECK(Found(ProductOf(tiny), "weight.float16-underflow").size() == 1);
  Model divided = ModelOf("g (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 1e-9}> { [d] y = Div(x, w) }");
  CHECK(Found(divided, "weight.float16-underflow").size() == 1);
  divided = ModelOf("g (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 1e-9}> { [d] y = Mul(x, w) }");
  CHECK(Found(divided, "weight.float16-underflow").empty());
}

TEST_CASE("constants stored twice, of 64 KiB and more") {
  Model model = ModelOf(
      "g (float[2,128] x) => (float[2,128] y) <float[1] a = {1}, float[1] b = {1}> { [m] t = MatMul(x, a) [n] y = "
      "MatMul(t, b) }");
  std::vector<float> values = Wave(128 * 128);
  SetConstant(model, "a", Floats({128, 128}, values));
  SetConstant(model, "b", Floats({128, 128}, values));
  CHECK(Found(model, "weight.duplicate").at(0).where.at(0) == "a = b, 64.00 KiB each");
  values[5] += 1;
  SetConstant(model, "b", Floats({128, 128}, values));
  CHECK(Found(model, "weight.duplicate").empty());
  SetConstant(model, "b", *model.graph.value(ValueNamed(model.graph, "a")).constant);  // one payload, stored once
  CHECK(Found(model, "weight.duplicate").empty());
  SetConstant(model, "a", Floats({64, 64}, Wave(64 * 64)));
  SetConstant(model, "b", Floats({64, 64}, Wave(64 * 64)));
  CHECK(Found(model, "weight.duplicate").empty());
}

TEST_CASE("large tables of int64 indices that int32 would hold") {
  const auto model = [](int64_t last, const std::string& op) {
    Model out = ModelOf("g (float[16,4] x) => (float[n,4] y) <int64[1] i = {1}> { [g] y = " + op + " }");
    std::vector<int64_t> indices(8192, 3);
    indices.back() = last;
    SetConstant(out, "i", Tensor::Of<int64_t>({8192}, indices));
    return out;
  };
  CHECK(Found(model(15, "Gather(x, i)"), "type.int64").size() == 1);
  CHECK(Found(model(int64_t{1} << 40, "Gather(x, i)"), "type.int64").empty());
  CHECK(Found(model(15, "Reshape(x, i)"), "type.int64").empty());
}

}  // namespace
}  // namespace quant
