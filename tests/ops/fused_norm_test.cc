#include "tests/ops/run_op.h"

namespace quant {
const OpDef& AddOp();
const OpDef& BiasGeluOp();
const OpDef& EmbedLayerNormalizationOp();
const OpDef& FastGeluOp();
const OpDef& GatherOp();
const OpDef& LayerNormalizationOp();
const OpDef& MicrosoftGeluOp();
const OpDef& QuickGeluOp();
const OpDef& RMSNormalizationOp();
const OpDef& SkipLayerNormalizationOp();
const OpDef& SkipSimplifiedLayerNormalizationOp();
const OpDef& SwishOp();

namespace {

void RequireSame(const Tensor& actual, const Tensor& expected, double tolerance = 1e-6) {
  REQUIRE(actual.dims() == expected.dims());
  RequireClose<float>(actual, {expected.data<float>().begin(), expected.data<float>().end()}, tolerance);
}

const AttributeList kEpsilon = {{"epsilon", 1e-5F}};

}  // namespace

TEST_CASE("Skip norms are the norms of a sum") {
  const Tensor x = RandomTensor({2, 3, 50}, 1), gamma = RandomTensor({50}, 2), beta = RandomTensor({50}, 3);
  const Tensor bias = RandomTensor({50}, 4);
  for (const Tensor& skip : {RandomTensor({2, 3, 50}, 5), RandomTensor({1, 3, 50}, 5), RandomTensor({3, 50}, 5)}) {
    const Tensor sum = RunOne(AddOp(), {RunOne(AddOp(), {x, skip}), bias});
    const auto full = RunOp(SkipLayerNormalizationOp(), {x, skip, gamma, beta, bias}, {kEpsilon, 1, 4});
    REQUIRE(full.ok());
    const auto plain = RunOp(LayerNormalizationOp(), {sum, gamma, beta}, {kEpsilon, 17, 3});
    REQUIRE(plain.ok());
    RequireSame((*full)[3], sum, 0);
    for (size_t i : {0, 1, 2}) RequireSame((*full)[i], (*plain)[i]);
    const auto simplified = RunOp(SkipSimplifiedLayerNormalizationOp(), {x, skip, gamma, bias}, {kEpsilon, 1, 4});
    REQUIRE(simplified.ok());
    RequireSame((*simplified)[0], RunOne(RMSNormalizationOp(), {sum, gamma}, {kEpsilon, 23}));
    RequireSame((*simplified)[3], sum, 0);
  }
  RequireRefused(SkipLayerNormalizationOp(), {x, RandomTensor({2, 1, 50}, 1), gamma});
  RequireRefused(SkipLayerNormalizationOp(), {x, x, RandomTensor({49}, 1)});
  RequireRefused(SkipLayerNormalizationOp(), {RandomTensor({50}, 1), RandomTensor({50}, 1), gamma});
  RequireThreadsAgree(SkipLayerNormalizationOp(),
                      {RandomTensor({3, 70, 129}, 1), RandomTensor({3, 70, 129}, 2), RandomTensor({129}, 3)});
}

TEST_CASE("EmbedLayerNormalization sums embeddings and counts the mask") {
  const Tensor ids = Make<int32_t>({2, 3}, {4, 0, 1, 2, 2, 3}), segments = Make<int32_t>({2, 3}, {0, 1, 1, 0, 0, 1});
  const Tensor word = RandomTensor({5, 20}, 1), position = RandomTensor({4, 20}, 2), segment = RandomTensor({2, 20}, 3);
  const Tensor gamma = RandomTensor({20}, 4), beta = RandomTensor({20}, 5), none;
  const Tensor mask = Make<int32_t>({2, 3}, {1, 1, 0, 1, 1, 1}), steps = Make<int32_t>({1, 3}, {3, 1, 0});
  const Tensor sum =
      RunOne(AddOp(), {RunOne(AddOp(), {RunOne(GatherOp(), {word, ids}), RunOne(GatherOp(), {position, steps})}),
                       RunOne(GatherOp(), {segment, segments})});
  const auto got = RunOp(EmbedLayerNormalizationOp(),
                         {ids, segments, word, position, segment, gamma, beta, mask, steps}, {kEpsilon, 1, 3});
  REQUIRE(got.ok());
  RequireSame((*got)[0], RunOne(LayerNormalizationOp(), {sum, gamma, beta}, {kEpsilon, 17}));
  RequireSame((*got)[2], sum);
  REQUIRE((*got)[1].data<int32_t>()[0] == 2);
  REQUIRE((*got)[1].data<int32_t>()[1] == 3);
  const OpDef& op = EmbedLayerNormalizationOp();
  RunOne(op, {ids, none, word, position, none, gamma, beta});
  RequireRefused(op, {ids});
  RequireRefused(op, {ids, segments, word, position, none, gamma, beta});
  RequireRefused(op, {Make<int32_t>({1, 1}, {5}), none, word, position, none, gamma, beta});
  RequireRefused(op, {Make<int32_t>({1, 1}, {-1}), none, word, position, none, gamma, beta});
  RequireRefused(op, {Make<int32_t>({1, 5}, {0, 0, 0, 0, 0}), none, word, position, none, gamma, beta});
  RequireRefused(op, {ids, none, word, position, none, gamma, beta, none, Make<int32_t>({2}, {0, 0})});
}

TEST_CASE("Gaussian error linear units of com.microsoft, and Swish") {
  const Tensor x = RandomTensor({9, 4000}, 1), bias = RandomTensor({4000}, 2);
  const Tensor sum = RunOne(AddOp(), {x, bias});
  std::vector<double> by_erf, by_tanh, quick;
  for (float v : sum.data<float>()) {
    const double d = v;
    by_erf.push_back(0.5 * d * (1 + std::erf(d / std::sqrt(2.0))));
    by_tanh.push_back(0.5 * d * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (d + 0.044715 * d * d * d))));
    quick.push_back(d / (1 + std::exp(-1.702 * d)));
  }
  RequireClose<float>(RunOne(BiasGeluOp(), {x, bias}), by_erf, 1e-6);
  RequireClose<float>(RunOne(MicrosoftGeluOp(), {sum}), by_erf, 1e-6);
  RequireClose<float>(RunOne(FastGeluOp(), {x, bias}), by_tanh, 1e-6);
  RequireClose<float>(RunOne(FastGeluOp(), {sum}), by_tanh, 1e-6);
  RequireClose<float>(RunOne(QuickGeluOp(), {sum}), quick, 1e-6);
  RequireClose<float>(RunOne(SwishOp(), {Make<float>({3}, {-1000, 0, 1000})}, {{{"alpha", 2.0F}}, 24}), {0, 0, 1000},
                      0);
  RequireRefused(BiasGeluOp(), {x, RandomTensor({9}, 1)});
  RequireRefused(BiasGeluOp(), {RandomTensor({}, 1), RandomTensor({1}, 1)});
}

}  // namespace quant
