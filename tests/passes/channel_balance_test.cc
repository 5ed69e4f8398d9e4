// Factors between the channels of neighbouring layers: the float model answers as before, and what reaches far reaches
// less.
#include "passes/quant/channel_balance.h"

#include <cmath>

#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "passes/quant/balance_sites.h"
#include "tests/catch.h"

namespace quant {
namespace {

Model Parsed(const std::string& graph) {
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 21, \"com.microsoft\": 1]>\n" + graph);
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return *std::move(model);
}

std::vector<float> AnswersOf(const Model& model, const NamedTensors& feeds) {
  const auto session = Session::Create(model);
  REQUIRE(session.ok());
  const auto out = (*session)->Run(feeds);
  REQUIRE(out.ok());
  const auto values = out->front().second.data<float>();
  return {values.begin(), values.end()};
}

Tensor Wave(Dims dims) {
  Tensor out = Tensor::Allocate(DType::kFloat, std::move(dims));
  const auto values = out.mutable_data<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.7F);
  return out;
}

void CheckSame(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float most = 0;
  for (const float v : a) most = std::max(most, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) <= 1e-5F * most);
}

struct Case {
  const char* name;
  const char* graph;
  int sites, linear;
};

// Every operator that makes and reads channels, and every one that they pass through.
const Case kCases[] = {
    {"a Conv, a Relu and a pool",
     R"(g (float[1,2,4,4] x) => (float[1,1,2,2] z)
        <float[2,2,1,1] w = {8, 1, 0.5, -0.25}, float[2] b = {0.5, 2}, float[1,2,1,1] v = {0.125, 4}>
        { a = Conv(x, w, b)  r = Relu(a)  p = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(r)  z = Conv(p, v) })",
     1, 1},
    {"a depthwise Conv between two others",
     R"(g (float[1,2,4,4] x) => (float[1,1,4,4] z)
        <float[2,2,1,1] w = {8, 1, 0.5, -0.25}, float[2,1,1,1] d = {0.1, 20}, float[1,2,1,1] v = {0.125, 4}>
        { a = Conv(x, w)  r = LeakyRelu(a)  c = Conv<group = 2>(r, d)  z = Conv(c, v) })",
     2, 2},
    {"Convs in groups",
     R"(g (float[1,4,4,4] x) => (float[1,2,4,4] z)
        <float[4,2,1,1] w = {8, 1, 0.5, -0.25, 3, 2, 1, 0.1}, float[2,2,1,1] v = {0.125, 4, 1, 9}>
        { a = Conv<group = 2>(x, w)  z = Conv<group = 2>(a, v) })",
     1, 1},
    {"a ConvTranspose in groups",
     R"(g (float[1,4,2,2] x) => (float[1,1,4,4] z)
        <float[4,1,2,2] w = {8, 1, 0.5, -0.25, 3, 2, 1, 0.1, 1, 2, 3, 4, 0.1, 0.2, 0.3, 0.4}, float[1,2,1,1] v = {0.125, 4}>
        { a = ConvTranspose<group = 2, strides = [2, 2]>(x, w)  z = Conv(a, v) })",
     1, 1},
    {"Gemms, one of them transposed",
     R"(g (float[3,2] x) => (float[3,2] z)
        <float[2,2] w = {8, 1, 0.5, -0.25}, float[1,2] b = {0.5, 2}, float[2,2] v = {0.125, 4, 1, 9}>
        { a = Gemm<transB = 1, alpha = 0.5>(x, w, b)  z = Gemm(a, v) })",
     1, 1},
    {"a Gemm whose addend is a column, one number for each row",
     R"(g (float[2,2] x) => (float[2,2] z)
        <float[2,2] w = {8, 1, 0.5, -0.25}, float[2,1] b = {0.5, 2}, float[2,2] v = {0.125, 4, 1, 9}>
        { a = Gemm(x, w, b)  z = Gemm(a, v) })",
     0, 0},
    {"a LayerNormalization that three read",
     R"(g (float[1,3,2] x) => (float[1,3,2] z)
        <float[2] s = {8, 0.5}, float[2] b = {1, 3}, float[2,2] q = {1, 2, 3, 4}, float[2,2] k = {5, 1, 2, 1},
         float[2,2] v = {0.125, 4, 1, 9}>
        { n = LayerNormalization(x, s, b)  a = MatMul(n, q)  c = MatMul(n, k)  d = MatMul(n, v)  e = Mul(a, c)  z = Add(e, d) })",
     1, 0},
    {"a product with a bias of its own",
     R"(g (float[1,3,2] x) => (float[1,3,2] z)
        <float[2,2] w = {8, 1, 0.5, -0.25}, float[2] b = {1, 3}, float[2,2] v = {0.125, 4, 1, 9}>
        { m = MatMul(x, w)  a = Add(b, m)  r = Relu(a)  z = MatMul(r, v) })",
     1, 1},
    {"what a Mul scales",
     R"(g (float[1,3,2] x) => (float[1,3,2] z) <float[2] s = {8, 0.5}, float[2,2] v = {0.125, 4, 1, 9}>
        { y = Mul(x, s)  z = MatMul(y, v) })",
     1, 0},
    {"SkipLayerNormalization",
     R"(g (float[1,3,2] x) => (float[1,3,2] z)
        <float[2] s = {8, 0.5}, float[2] b = {1, 3}, float[2,2] v = {0.125, 4, 1, 9}>
        { n = com.microsoft.SkipLayerNormalization(x, x, s, b)  z = MatMul(n, v) })",
     1, 0},
    {"others read what is made",
     R"(g (float[1,3,2] x) => (float[1,3,2] z) <float[2] s = {8, 0.5}, float[2,2] v = {0.125, 4, 1, 9}>
        { n = LayerNormalization(x, s)  m = MatMul(n, v)  z = Add(n, m) })",
     0, 0},
    {"others read the weight",
     R"(g (float[1,3,2] x) => (float[1,3,2] z) <float[2] s = {8, 0.5}, float[2,2] v = {0.125, 4, 1, 9}>
        { n = LayerNormalization(x, s)  m = MatMul(n, v)  z = MatMul(m, v) })",
     0, 0},
    {"no factor passes through",
     R"(g (float[3,2] x) => (float[3,2] z) <float[2,2] w = {8, 1, 0.5, -0.25}, float[2,2] v = {0.125, 4, 1, 9}>
        { a = MatMul(x, w)  y = Sigmoid(a)  z = MatMul(y, v) })",
     0, 0},
};

const Case& CaseNamed(std::string_view name) {
  for (const Case& c : kCases) {
    if (name == c.name) return c;
  }
  FAIL("no case " << name);
  return kCases[0];
}

TEST_CASE("factors of channels leave the float model's answers") {
  for (const Case& c : kCases) {
    INFO(c.name);
    const Model model = Parsed(c.graph);
    const std::vector<BalanceSite> sites = FindBalanceSites(model);
    CHECK(static_cast<int>(sites.size()) == c.sites);
    const Value& x = model.graph.value(model.graph.main().inputs[0]);
    Dims dims;
    for (const Dim& d : *x.shape) dims.push_back(d.value);
    const NamedTensors feeds = {{"x", Wave(dims)}};
    const std::vector<float> before = AnswersOf(model, feeds);

    Model equalized = model;
    const auto changed = EqualizeWeights(equalized);
    REQUIRE(changed.ok());
    CHECK(*changed == c.linear);
    CheckSame(before, AnswersOf(equalized, feeds));

    Model balanced = model;
    ValueRanges ranges;
    for (const BalanceSite& site : sites) {
      std::vector<float> reach;
      for (int64_t i = 0; i < site.channels; ++i) reach.push_back(static_cast<float>(1 + 50 * i));
      ranges[model.graph.value(site.value).name] = {-1, 1, reach};
    }
    const auto moved = BalanceActivations(balanced, ranges, 0.5);
    REQUIRE(moved.ok());
    CHECK(*moved == c.sites);
    CheckSame(before, AnswersOf(balanced, feeds));
  }
}

TEST_CASE("equalized weights reach equally far in each channel, dead ones stay") {
  Model model = Parsed(R"(g (float[1,1,4,4] x) => (float[1,1,4,4] z)
      <float[3,1,1,1] w = {8, 0.5, 0}, float[1,3,1,1] v = {0.125, 4, 1}> { a = Conv(x, w)  r = Relu(a)  z = Conv(r, v) })");
  REQUIRE(EqualizeWeights(model).ok());
  const BalanceSite site = FindBalanceSites(model)[0];
  const auto first = model.graph.value(site.made_by[0].constant).constant->data<float>();
  const auto second = model.graph.value(site.read_by[0].constant).constant->data<float>();
  const float ratio = first[0] / second[0];
  CHECK(std::fabs(first[1] / second[1] / ratio - 1) < 0.03F);
  CHECK(first[2] == 0);
  CHECK(second[2] == 1);
}

TEST_CASE("what varies between channels of an activation goes into the weight") {
  const Model model = Parsed(R"(g (float[1,3,2] x) => (float[1,3,1] z) <float[2] s = {100, 1}, float[2,1] v = {1, 1}>
      { y = Mul(x, s)  z = MatMul(y, v) })");
  const ValueRanges ranges = {{"y", {-100, 100, {100, 1}}}};
  for (const auto& [alpha, reach] : {std::pair(0.0, 100.0F), {0.5, 10.0F}, {1.0, 1.0F}}) {
    Model balanced = model;
    REQUIRE(BalanceActivations(balanced, ranges, alpha).ok());
    const auto scale = balanced.graph.value(FindBalanceSites(balanced)[0].made_by[0].constant).constant->data<float>();
    CHECK(std::fabs(scale[0] / scale[1] / reach - 1) < 0.02F);
  }
}

TEST_CASE("channels of which nothing is known stay") {
  Model model = Parsed(CaseNamed("a LayerNormalization that three read").graph);
  const auto moved = BalanceActivations(model, {{"n", {-1, 1, {}}}}, 0.5);
  REQUIRE(moved.ok());
  CHECK(*moved == 0);
  Model dead = Parsed(CaseNamed("a LayerNormalization that three read").graph);
  const auto still = BalanceActivations(dead, {{"n", {-1, 1, {0, 0}}}}, 0.5);
  REQUIRE(still.ok());
  CHECK(*still == 0);
}

}  // namespace
}  // namespace quant
