#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
const OpDef& BatchNormalizationOp();
const OpDef& GroupNormalizationOp();
const OpDef& InstanceNormalizationOp();
const OpDef& LayerNormalizationOp();
const OpDef& LogSoftmaxOp();
const OpDef& LRNOp();
const OpDef& RMSNormalizationOp();
const OpDef& SoftmaxOp();

namespace {

// x as [outer, length, inner]: normalised exponentials along `length`.
std::vector<double> PlainSoftmax(const Tensor& x, int64_t outer, int64_t length, int64_t inner, bool log) {
  std::vector<double> y(static_cast<size_t>(x.size()));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t l) { return static_cast<size_t>((o * length + l) * inner + i); };
      double largest = -1e300, sum = 0;
      for (int64_t l = 0; l < length; ++l) largest = std::max<double>(largest, x.data<float>()[at(l)]);
      for (int64_t l = 0; l < length; ++l) sum += std::exp(x.data<float>()[at(l)] - largest);
      for (int64_t l = 0; l < length; ++l) {
        const double shifted = x.data<float>()[at(l)] - largest;
        y[at(l)] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
      }
    }
  }
  return y;
}

struct Stats {
  double mean = 0, variance = 0;
};
Stats StatsOf(const float* x, int64_t count) {
  Stats s;
  for (int64_t i = 0; i < count; ++i) s.mean += x[i] / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) s.variance += (x[i] - s.mean) * (x[i] - s.mean) / static_cast<double>(count);
  return s;
}

}  // namespace

TEST_CASE("Softmax along each axis, and by rows before opset 13") {
  const Dims dims = {3, 5, 2, 37};
  const Tensor x = RandomTensor(dims, 1);
  for (bool log : {false, true}) {
    const OpDef& op = log ? LogSoftmaxOp() : SoftmaxOp();
    for (int64_t axis = -4; axis < 4; ++axis) {
      int64_t outer = 1, inner = 1;
      const int64_t positive = axis < 0 ? axis + 4 : axis;
      for (int64_t i = 0; i < 4; ++i) {
        if (i < positive) outer *= dims[static_cast<size_t>(i)];
        if (i > positive) inner *= dims[static_cast<size_t>(i)];
      }
      const int64_t length = dims[static_cast<size_t>(positive)];
      RequireClose<float>(RunOne(op, {x}, {{{"axis", axis}}, 13}), PlainSoftmax(x, outer, length, inner, log), 5e-7);
      RequireClose<float>(RunOne(op, {x}, {{{"axis", axis}}, 11}), PlainSoftmax(x, outer, length * inner, 1, log),
                          5e-7);
    }
    RequireClose<float>(RunOne(op, {x}, {{}, 13}), PlainSoftmax(x, 30, 37, 1, log), 5e-7);
    RequireClose<float>(RunOne(op, {x}, {{}, 11}), PlainSoftmax(x, 3, 370, 1, log), 5e-7);
    RequireRefused(op, {x}, {{{"axis", int64_t{4}}}, 13});
    RequireRefused(op, {x}, {{{"axis", int64_t{-5}}}, 13});
    RequireThreadsAgree(op, {RandomTensor({700, 129}, 1)});
    RequireThreadsAgree(op, {RandomTensor({3, 50, 1000}, 1)}, {{{"axis", int64_t{1}}}});
  }
}

TEST_CASE("Softmax of masked and of large numbers") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor y = RunOne(SoftmaxOp(), {Make<float>({1, 5}, {1e30F, 1e30F, -infinity, -1e9F, 0})});
  const auto v = y.data<float>();
  REQUIRE(v[0] == 0.5F);
  REQUIRE(v[1] == 0.5F);
  REQUIRE(v[2] == 0.0F);
  REQUIRE(v[3] == 0.0F);
  REQUIRE(v[4] == 0.0F);
  REQUIRE(std::isnan(RunOne(SoftmaxOp(), {Make<float>({1, 2}, {std::nanf(""), 0})}).data<float>()[1]));
}

TEST_CASE("Softmax sums a long row in double") {
  Tensor x = Tensor::Allocate(DType::kFloat, {1, 1 << 20});
  for (float& v : x.mutable_data<float>()) v = -20;
  x.mutable_data<float>()[0] = 0;
  const double small = std::exp(-20.0), sum = 1 + small * ((1 << 20) - 1);
  REQUIRE(static_cast<double>(RunOne(SoftmaxOp(), {x}).data<float>()[0]) == Approx(1 / sum).epsilon(1e-7));
}

TEST_CASE("LayerNormalization and RMSNormalization over the last axes") {
  const Dims dims = {3, 4, 5, 7};
  Tensor x = RandomTensor(dims, 1);
  for (float& v : x.mutable_data<float>()) v = v * 3 + 10;
  for (int64_t axis = 0; axis < 4; ++axis) {
    const Dims row(dims.begin() + axis, dims.end());
    const int64_t length = Count(row), rows = x.size() / length;
    const Tensor scale = RandomTensor(row, 2), bias = RandomTensor(row, 3);
    std::vector<double> layer, rms, means, inverses;
    for (int64_t r = 0; r < rows; ++r) {
      const float* in = x.data<float>().data() + r * length;
      const Stats s = StatsOf(in, length);
      means.push_back(s.mean);
      inverses.push_back(1 / std::sqrt(s.variance + 1e-3));
      const double root = std::sqrt(s.variance + s.mean * s.mean + 1e-3);
      for (int64_t i = 0; i < length; ++i) {
        const auto at = static_cast<size_t>(i);
        layer.push_back((in[i] - s.mean) * inverses.back() * scale.data<float>()[at] + bias.data<float>()[at]);
        rms.push_back(in[i] / root * scale.data<float>()[at]);
      }
    }
    const OpCall call = {{{"axis", axis}, {"epsilon", 1e-3F}}, 23, 3};
    const auto outputs = RunOp(LayerNormalizationOp(), {x, scale, bias}, call);
    REQUIRE(outputs.ok());
    RequireClose<float>((*outputs)[0], layer, 2e-6);
    RequireClose<float>((*outputs)[1], means, 1e-6);
    RequireClose<float>((*outputs)[2], inverses, 1e-6);
    REQUIRE((*outputs)[1].rank() == 4);
    RequireClose<float>(RunOne(RMSNormalizationOp(), {x, scale}, {{{"axis", axis}, {"epsilon", 1e-3F}}, 23}), rms,
                        1e-6);
  }
}

TEST_CASE("LayerNormalization broadcasts its parameters and keeps precision far from zero") {
  const Tensor x = RandomTensor({2, 3, 4}, 1);
  const Tensor one = RunOne(LayerNormalizationOp(), {x, Make<float>({1}, {2})});
  const Tensor all = RunOne(LayerNormalizationOp(), {x, Make<float>({4}, {2, 2, 2, 2})});
  for (size_t i = 0; i < 24; ++i) REQUIRE(one.data<float>()[i] == all.data<float>()[i]);
  const Tensor column = RunOne(LayerNormalizationOp(), {x, Make<float>({3, 1}, {1, 2, 3})});
  for (size_t i = 0; i < 24; ++i) {
    REQUIRE(column.data<float>()[i] == Approx(all.data<float>()[i] / 2 * static_cast<float>(i / 4 % 3 + 1)));
  }
  Tensor far = Tensor::Allocate(DType::kFloat, {1, 1000});
  for (size_t i = 0; i < 1000; ++i) far.mutable_data<float>()[i] = 4096.0F + static_cast<float>(i % 2);
  const Tensor y = RunOne(LayerNormalizationOp(), {far, Make<float>({1}, {1})}, {{{"epsilon", 0.0F}}});
  REQUIRE(y.data<float>()[0] == -1.0F);
  REQUIRE(y.data<float>()[1] == 1.0F);
  RequireRefused(LayerNormalizationOp(), {x, RandomTensor({5}, 1)});
  RequireRefused(LayerNormalizationOp(), {x, RandomTensor({4}, 1)}, {{{"axis", int64_t{3}}}});
  RequireRefused(LayerNormalizationOp(), {RandomTensor({}, 1), RandomTensor({}, 1)});
}

TEST_CASE("normalisation by channel, by own statistics of channels and of groups") {
  const Tensor x = RandomTensor({2, 6, 3, 5}, 1);
  const Tensor scale = RandomTensor({6}, 2), bias = RandomTensor({6}, 3), mean = RandomTensor({6}, 4);
  Tensor variance = RandomTensor({6}, 5);
  for (float& v : variance.mutable_data<float>()) v = std::abs(v);
  for (int64_t groups : {int64_t{0}, int64_t{6}, int64_t{2}}) {
    std::vector<double> expected;
    for (size_t p = 0; p < 12; ++p) {
      const size_t c = p % 6;
      Stats s = {mean.data<float>()[c], variance.data<float>()[c]};
      if (groups > 0) {
        const auto of_group = static_cast<size_t>(6 / groups);
        s = StatsOf(x.data<float>().data() + p / of_group * of_group * 15, static_cast<int64_t>(of_group) * 15);
      }
      for (size_t i = 0; i < 15; ++i) {
        const double centred =
            (x.data<float>()[p * 15 + i] - s.mean) / std::sqrt(s.variance + static_cast<double>(1e-5F));
        expected.push_back(centred * scale.data<float>()[c] + bias.data<float>()[c]);
      }
    }
    if (groups == 0)
      RequireClose<float>(RunOne(BatchNormalizationOp(), {x, scale, bias, mean, variance}), expected, 1e-6);
    if (groups == 6) RequireClose<float>(RunOne(InstanceNormalizationOp(), {x, scale, bias}), expected, 1e-6);
    if (groups > 0)
      RequireClose<float>(RunOne(GroupNormalizationOp(), {x, scale, bias}, {{{"num_groups", groups}}, 21}), expected,
                          1e-6);
  }
  // Before opset 21 a group has one scale and one bias.
  const OpCall old = {{{"num_groups", int64_t{2}}}, 18};
  const Tensor per_group =
      RunOne(GroupNormalizationOp(), {x, Make<float>({2}, {2, 3}), Make<float>({2}, {1, -1})}, old);
  const Tensor per_channel =
      RunOne(GroupNormalizationOp(), {x, Make<float>({6}, {2, 2, 2, 3, 3, 3}), Make<float>({6}, {1, 1, 1, -1, -1, -1})},
             {old.attributes, 21});
  for (size_t i = 0; i < 180; ++i) REQUIRE(per_group.data<float>()[i] == per_channel.data<float>()[i]);
  RequireRefused(GroupNormalizationOp(), {x, scale, bias}, {{{"num_groups", int64_t{4}}}});
  RequireRefused(GroupNormalizationOp(), {x, scale, bias}, {{{"num_groups", int64_t{0}}}});
  RequireRefused(BatchNormalizationOp(), {x, scale, bias, mean, RandomTensor({5}, 1)});
}

TEST_CASE("BatchNormalization trains from opset 14 on, and on something") {
  const OpCall training = {{{"training_mode", int64_t{1}}, {"momentum", 0.75F}}, 15, 3};
  const Tensor x = Make<float>({2, 1, 2}, {1, 3, 5, 7}), one = Make<float>({1}, {1}), two = Make<float>({1}, {2});
  const auto out = RunOp(BatchNormalizationOp(), {x, one, two, one, CastTo<float16>(two)}, training);
  REQUIRE(out.ok());
  const double root = std::sqrt(5.0 + static_cast<double>(1e-5F));  // mean 4, variance 5
  RequireClose<float>((*out)[0], {2 - 3 / root, 2 - 1 / root, 2 + 1 / root, 2 + 3 / root}, 1e-6);
  RequireClose<float>((*out)[1], {1.75}, 1e-6);
  RequireClose<float16>((*out)[2], {2.75}, 1e-3);
  RequireRefused(BatchNormalizationOp(), {x, one, two, one, two}, {{}, 9, 3});
  RequireRefused(BatchNormalizationOp(), {x, one, two, one, two}, {{}, 6, 1});
  RequireRefused(BatchNormalizationOp(), {Make<float>({0, 1, 2}, {}), one, two, one, two}, training);
}

TEST_CASE("Dropout drops as NumPy's generator says, only in training") {
  const OpDef& dropout = *FindOp("", "Dropout");
  const Tensor x = Make<float>({4}, {1, 2, 3, 4});
  Tensor yes = Tensor::Allocate(DType::kBool, {});
  yes.mutable_data<bool>()[0] = true;
  // numpy.random.seed(0); uniform(): 0.5488, 0.7152, 0.6028, 0.5449.
  const OpCall call = {{{"seed", int64_t{0}}}, 13, 2};
  const auto out = RunOp(dropout, {x, Tensor::Scalar(0.6F), yes}, call);
  REQUIRE(out.ok());
  RequireClose<float>((*out)[0], {0, 5, 7.5, 0}, 1e-6);
  CHECK((*out)[1].data<bool>()[1]);
  CHECK_FALSE((*out)[1].data<bool>()[0]);
  RequireClose<float>(RunOne(dropout, {x, Tensor::Scalar(0.6F)}, {{}, 13, 1}), {1, 2, 3, 4}, 0);
  for (float ratio : {1.0F, -0.5F}) RequireRefused(dropout, {x, Tensor::Scalar(ratio), yes}, call);
  // Before opset 10 the mask had the input's type.
  const auto old = RunOp(dropout, {x}, {{}, 7, 2});
  REQUIRE(old.ok());
  RequireClose<float>((*old)[1], {1, 1, 1, 1}, 0);
}

TEST_CASE("LRN divides by the energy of neighbours") {
  const Tensor x = RandomTensor({2, 7, 3, 4}, 1);
  for (int64_t size : {1, 2, 3, 9}) {
    std::vector<double> expected;
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t c = i / 12 % 7;
      double sum = 0;
      for (int64_t o = c - (size - 1) / 2; o <= c + size / 2; ++o) {
        if (o < 0 || o > 6) continue;
        const double v = x.data<float>()[static_cast<size_t>(i + (o - c) * 12)];
        sum += v * v;
      }
      expected.push_back(x.data<float>()[static_cast<size_t>(i)] /
                         std::pow(2 + 0.5 / static_cast<double>(size) * sum, 0.75));
    }
    const OpCall call = {{{"size", size}, {"alpha", 0.5F}, {"bias", 2.0F}}};
    RequireClose<float>(RunOne(LRNOp(), {x}, call), expected, 1e-6);
  }
  RequireRefused(LRNOp(), {x}, {{{"size", int64_t{0}}}});
}

}  // namespace quant
