// Transforms, windows, random numbers, losses and operators with a state: edges and inputs that mean harm.
#include <complex>
#include <limits>
#include <numbers>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<double> Values(const Tensor& t) { return {t.data<float>().begin(), t.data<float>().end()}; }
Tensor Int(int64_t v) { return Make<int64_t>({}, {v}); }
OpCall With(AttributeList attributes) { return {.attributes = std::move(attributes)}; }

// The sum that defines the transform.
std::vector<double> PlainDft(const std::vector<double>& x, double sign) {
  const size_t n = x.size() / 2;
  std::vector<double> y;
  for (size_t k = 0; k < n; ++k) {
    std::complex<double> sum = 0;
    for (size_t i = 0; i < n; ++i) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k * i % n) / static_cast<double>(n);
      sum += std::complex<double>(x[2 * i], x[2 * i + 1]) * std::polar(1.0, angle);
    }
    y.push_back(sum.real());
    y.push_back(sum.imag());
  }
  return y;
}

TEST_CASE("DFT of any length is the sum that defines it, and inverts") {
  const OpDef& op = *FindOp("", "DFT");
  for (int64_t n : {1, 2, 3, 5, 7, 8, 12, 17, 64, 97, 100, 1009}) {
    const Tensor x = RandomTensor({1, n, 2}, static_cast<uint32_t>(n));
    const Tensor y = RunOne(op, {x});
    RequireClose<float>(y, PlainDft(Values(x), -1), 1e-6);
    RequireClose<float>(RunOne(op, {y}, With({{"inverse", int64_t{1}}})), Values(x), 1e-6);
  }
}

TEST_CASE("DFT with onesided leaves out the mirrored half and makes it up") {
  const OpDef& op = *FindOp("", "DFT");
  for (int64_t n : {4, 7, 9}) {
    const Tensor x = RandomTensor({n, 1}, 3);
    const Tensor half = RunOne(op, {x}, With({{"onesided", int64_t{1}}}));
    REQUIRE(half.dims() == Dims{n / 2 + 1, 2});
    const Tensor back = RunOne(op, {half, Int(n)}, With({{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}));
    REQUIRE(back.dims() == Dims{n, 1});
    RequireClose<float>(back, Values(x), 1e-6);
  }
}

TEST_CASE("DFT cuts and fills up to its length along any axis") {
  const OpDef& op = *FindOp("", "DFT");
  const Tensor x = Make<float>({2, 2, 1}, {1, 10, 2, 20});
  RequireClose<float>(RunOne(op, {x, Int(1), Int(0)}), {1, 0, 10, 0}, 1e-6);
  RequireClose<float>(RunOne(op, {x, Int(4), Int(-3)}), {3, 0, 30, 0, 1, -2, 10, -20, -1, 0, -10, 0, 1, 2, 10, 20},
                      1e-6);
  OpCall old = With({{"axis", int64_t{0}}});
  old.version = 17;
  RequireClose<float>(RunOne(op, {x}, old), {3, 0, 30, 0, -1, 0, -10, 0}, 1e-6);
}

TEST_CASE("DFT refuses what has no transform") {
  const OpDef& op = *FindOp("", "DFT");
  const Tensor x = RandomTensor({1, 4, 2}, 1);
  RequireRefused(op, {x}, With({{"onesided", int64_t{1}}}));
  RequireRefused(op, {x, Tensor(), Int(2)});
  RequireRefused(op, {x, Tensor(), Int(-1)});
  RequireRefused(op, {x, Int(0)});
  RequireRefused(op, {x, Int(-4)});
  RequireRefused(op, {x, Int(int64_t{1} << 40)});
  RequireRefused(op, {x, Make<int64_t>({2}, {4, 4})});
  RequireRefused(op, {RandomTensor({1, 4, 3}, 1)});
  RequireRefused(op, {RandomTensor({2}, 1)});
  RequireRefused(op, {Make<float>({1, 0, 2}, {})});
}

TEST_CASE("STFT is the DFT of weighted frames") {
  const OpDef& op = *FindOp("", "STFT");
  const Tensor x = Make<float>({1, 5, 1}, {1, 2, 3, 4, 5});
  const Tensor y = RunOne(op, {x, Int(3), Make<float>({2}, {1, 10})});
  REQUIRE(y.dims() == Dims{1, 2, 2, 2});
  RequireClose<float>(y, {21, 0, -19, 0, 54, 0, -46, 0}, 1e-6);
  RequireRefused(op, {x, Int(0), Make<float>({2}, {1, 10})});
  RequireRefused(op, {x, Int(1), RandomTensor({6}, 1)});
  RequireRefused(op, {x, Int(1), RandomTensor({3}, 1), Int(2)});
  RequireRefused(op, {x, Int(1), Tensor(), Int(-1)});
  RequireRefused(op, {RandomTensor({1, 5, 2}, 1), Int(1), Tensor(), Int(2)});
}

TEST_CASE("MelWeightMatrix refuses bands outside the spectrum") {
  const OpDef& op = *FindOp("", "MelWeightMatrix");
  const auto inputs = [](int64_t bands, int64_t length, int64_t rate, float low, float high) {
    return std::vector<Tensor>{Int(bands), Int(length), Int(rate), Make<float>({}, {low}), Make<float>({}, {high})};
  };
  REQUIRE(RunOne(op, inputs(4, 16, 8000, 0, 4000)).dims() == Dims{9, 4});
  RequireRefused(op, inputs(4, 16, 8000, 0, 40000));
  RequireRefused(op, inputs(4, 16, 8000, -100, 4000));
  RequireRefused(op, inputs(4, 16, 8000, 0, kInf));
  RequireRefused(op, inputs(4, 16, 8000, 3000, 2000));
  RequireRefused(op, inputs(-4, 16, 8000, 0, 4000));
  RequireRefused(op, inputs(4, 16, 0, 0, 4000));
}

TEST_CASE("Random numbers depend on the seed alone") {
  for (const char* name : {"RandomUniform", "RandomNormal"}) {
    const OpDef& op = *FindOp("", name);
    const AttributeList shape = {{"shape", Ints{50000}}};
    AttributeList seeded = shape;
    seeded.emplace_back("seed", 1.5F);
    RequireThreadsAgree(op, {}, With(seeded));
    const Tensor a = RunOne(op, {}, With(shape)), b = RunOne(op, {}, With(shape)), c = RunOne(op, {}, With(seeded));
    REQUIRE(Values(a) == Values(b));
    REQUIRE(Values(a) != Values(c));
    RequireRefused(op, {}, With({{"shape", Ints{-1}}}));
    RequireRefused(op, {}, With({{"shape", Ints{2}}, {"dtype", int64_t{7}}}));
  }
}

TEST_CASE("Random numbers have the moments asked for") {
  const auto moments = [](const Tensor& t) {
    double sum = 0, squares = 0;
    for (float v : t.data<float>()) sum += v, squares += static_cast<double>(v) * v;
    const double mean = sum / static_cast<double>(t.size());
    return std::pair(mean, std::sqrt(squares / static_cast<double>(t.size()) - mean * mean));
  };
  const auto [mean, deviation] = moments(
      RunOne(*FindOp("", "RandomNormal"), {}, With({{"shape", Ints{100000}}, {"mean", 3.0F}, {"scale", 2.0F}})));
  REQUIRE((std::abs(mean - 3) < 0.03 && std::abs(deviation - 2) < 0.03));
  const Tensor uniform =
      RunOne(*FindOp("", "RandomUniform"), {}, With({{"shape", Ints{100000}}, {"low", -1.0F}, {"high", 3.0F}}));
  const auto [middle, spread] = moments(uniform);
  REQUIRE((std::abs(middle - 1) < 0.02 && std::abs(spread - 4 / std::sqrt(12.0)) < 0.02));
  for (float v : uniform.data<float>()) REQUIRE((v >= -1 && v < 3));
  const Tensor half = RunOne(*FindOp("", "RandomUniform"), {}, With({{"shape", Ints{10000}}, {"dtype", int64_t{10}}}));
  for (float16 v : half.data<float16>()) REQUIRE(static_cast<float>(v) < 1);
}

TEST_CASE("Bernoulli draws with the chance given") {
  const OpDef& op = *FindOp("", "Bernoulli");
  Tensor chances = Tensor::Allocate(DType::kFloat, {30000});
  for (size_t i = 0; i < 30000; ++i) chances.mutable_data<float>()[i] = i < 10000 ? 0.0F : i < 20000 ? 1.0F : 0.25F;
  const Tensor y = RunOne(op, {chances}, With({{"dtype", int64_t{9}}}));
  const auto hits = [&](size_t begin) {
    const auto drawn = y.data<bool>().subspan(begin, 10000);
    return std::count(drawn.begin(), drawn.end(), true);
  };
  REQUIRE((hits(0) == 0 && hits(10000) == 10000 && std::abs(hits(20000) - 2500) < 200));
  RequireRefused(op, {Make<float>({1}, {1.5F})});
  RequireRefused(op, {Make<float>({1}, {std::numeric_limits<float>::quiet_NaN()})});
}

TEST_CASE("Multinomial draws classes by log-probability") {
  const OpDef& op = *FindOp("", "Multinomial");
  const Tensor logs = Make<float>({1, 4}, {std::log(2.0F), -kInf, std::log(6.0F), -kInf});
  const Tensor y = RunOne(op, {logs}, With({{"sample_size", int64_t{10000}}, {"dtype", int64_t{7}}}));
  REQUIRE(y.dims() == Dims{1, 10000});
  const auto drawn = y.data<int64_t>();
  REQUIRE(std::abs(std::count(drawn.begin(), drawn.end(), 0) - 2500) < 200);
  REQUIRE(std::count(drawn.begin(), drawn.end(), 0) + std::count(drawn.begin(), drawn.end(), 2) == 10000);
  RequireRefused(op, {Make<float>({1, 2}, {-kInf, -kInf})});
  RequireRefused(op, {Make<float>({1, 2}, {kInf, 0})});
  RequireRefused(op, {Make<float>({1, 0}, {})});
  RequireRefused(op, {logs}, With({{"sample_size", int64_t{0}}}));
}

TEST_CASE("LinearAttention goes on from the state that it left") {
  const OpDef& op = *FindOp("", "LinearAttention");
  OpCall call = With({{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{1}}});
  call.outputs = 2;
  const Tensor q = RandomTensor({1, 4, 6}, 1), k = RandomTensor({1, 4, 3}, 2), v = RandomTensor({1, 4, 2}, 3);
  const Tensor g = RandomTensor({1, 4, 3}, 4), beta = RandomTensor({1, 4, 1}, 5);
  const auto part = [](const Tensor& t, int64_t half) {
    const int64_t width = t.dims()[2];
    const auto values = t.data<float>().subspan(static_cast<size_t>(half * 2 * width), static_cast<size_t>(2 * width));
    return Tensor::Of<float>({1, 2, width}, values);
  };
  const auto all = RunOp(op, {q, k, v, Tensor(), g, beta}, call);
  REQUIRE(all.ok());
  const auto first = RunOp(op, {part(q, 0), part(k, 0), part(v, 0), Tensor(), part(g, 0), part(beta, 0)}, call);
  REQUIRE(first.ok());
  const auto second = RunOp(op, {part(q, 1), part(k, 1), part(v, 1), (*first)[1], part(g, 1), part(beta, 1)}, call);
  REQUIRE(second.ok());
  std::vector<double> joined = Values((*first)[0]);
  for (double value : Values((*second)[0])) joined.push_back(value);
  REQUIRE(joined == Values((*all)[0]));
  REQUIRE(Values((*second)[1]) == Values((*all)[1]));
  RequireRefused(op, {q, k, v}, call);
  RequireRefused(op, {q, k, v, Tensor(), g}, call);
  RequireRefused(op, {q, k, v, RandomTensor({1, 1, 2, 3}, 1), g, beta}, call);
  RequireRefused(op, {q, k, v, Tensor(), g, beta}, With({{"q_num_heads", int64_t{1}}, {"kv_num_heads", int64_t{2}}}));
  RequireRefused(op, {q, k, v, Tensor(), g, beta}, With({}));
}

TEST_CASE("CausalConvWithState goes on from the state that it left") {
  const OpDef& op = *FindOp("", "CausalConvWithState");
  OpCall call = With({{"activation", std::string("silu")}});
  call.outputs = 2;
  const Tensor w = RandomTensor({1, 1, 4}, 1);
  const Tensor x = RandomTensor({1, 1, 5}, 2);
  const auto steps = x.data<float>();
  const auto all = RunOp(op, {x, w}, call);
  REQUIRE(all.ok());
  const auto first = RunOp(op, {Tensor::Of<float>({1, 1, 2}, steps.subspan(0, 2)), w}, call);
  REQUIRE(first.ok());
  REQUIRE(Values((*first)[1]) == std::vector<double>{0, steps[0], steps[1]});
  const auto second = RunOp(op, {Tensor::Of<float>({1, 1, 3}, steps.subspan(2)), w, Tensor(), (*first)[1]}, call);
  REQUIRE(second.ok());
  std::vector<double> joined = Values((*first)[0]);
  for (double value : Values((*second)[0])) joined.push_back(value);
  REQUIRE(joined == Values((*all)[0]));
  REQUIRE(Values((*second)[1]) == Values((*all)[1]));
  RequireRefused(op, {x, RandomTensor({2, 1, 4}, 1)}, call);
  RequireRefused(op, {x, Make<float>({1, 1, 0}, {})}, call);
  RequireRefused(op, {x, w, Tensor(), RandomTensor({1, 1, 4}, 1)}, call);
}

}  // namespace
}  // namespace quant
