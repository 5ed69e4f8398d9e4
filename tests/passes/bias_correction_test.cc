// Bias correction: at the mean of what it reads, a product with rounded weights makes what the float one makes.
#include "passes/quant/bias_correction.h"

#include <cmath>

#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "passes/quant/static_quant.h"
#include "tests/catch.h"

namespace quant {
namespace {

QuantizeOptions CoarseOptions() {
  QuantizeOptions options;
  // One scale for a whole weight, whose largest element leaves the others few codes.
  for (const auto& [key, word] :
       {std::pair("target", "onnxruntime-cpu"), {"activations", "uint8"}, {"group-size", "tensor"}}) {
    REQUIRE(SetQuantizeOption(options, key, word).ok());
  }
  REQUIRE(CompleteOptions(options).ok());
  return options;
}

std::vector<float> AnswersAt(const Model& model, const Tensor& x) {
  const auto session = Session::Create(model);
  REQUIRE(session.ok());
  const auto out = (*session)->Run({{"x", x}});
  REQUIRE(out.ok());
  const auto values = out->front().second.data<float>();
  return {values.begin(), values.end()};
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

struct Case {
  const char* name;
  const char* graph;
  Dims dims;              // of x
  std::vector<float> at;  // mean of x by channel: the last axis, or the second of four
  int corrected;
};

const Case kCases[] = {
    {"Conv with a bias",
     R"(g (float[1,2,1,1] x) => (float[1,2,1,1] z)
       <float[2,2,1,1] w = {100, 0.3, 0.2, 0.1}, float[2] b = {1, -2}> { z = Conv(x, w, b) })",
     {1, 2, 1, 1},
     {3, 7},
     1},
    {"Conv without",
     R"(g (float[1,2,1,1] x) => (float[1,2,1,1] z)
       <float[2,2,1,1] w = {100, 0.3, 0.2, 0.1}> { z = Conv(x, w) })",
     {1, 2, 1, 1},
     {3, 7},
     1},
    {"Conv in groups",
     R"(g (float[1,2,1,1] x) => (float[1,2,1,1] z)
       <float[2,1,1,1] w = {100, 0.3}, float[2] b = {1, -2}> { z = Conv<group = 2>(x, w, b) })",
     {1, 2, 1, 1},
     {3, 7},
     1},
    {"Gemm",
     R"(g (float[1,2] x) => (float[1,2] z)
       <float[2,2] w = {100, 0.3, 0.2, 0.1}, float[2] b = {1, -2}> { z = Gemm<transB = 1>(x, w, b) })",
     {1, 2},
     {3, 7},
     1},
    {"MatMul and Add",
     R"(g (float[1,1,2] x) => (float[1,1,2] z)
       <float[2,2] w = {100, 0.3, 0.2, 0.1}, float[2] b = {1, -2}> { y = MatMul(x, w)  z = Add(y, b) })",
     {1, 1, 2},
     {3, 7},
     1},
    {"MatMul alone",
     R"(g (float[1,1,2] x) => (float[1,1,2] z)
       <float[2,2] w = {100, 0.3, 0.2, 0.1}> { z = MatMul(x, w) })",
     {1, 1, 2},
     {3, 7},
     0},
    {"one number for all channels",
     R"(g (float[1,2] x) => (float[1,2] z)
       <float[2,2] w = {100, 0.3, 0.2, 0.1}, float b = {1}> { z = Gemm(x, w, b) })",
     {1, 2},
     {3, 7},
     0},
};

TEST_CASE("rounded weights do not shift the mean once biases are corrected") {
  const QuantizeOptions options = CoarseOptions();
  for (const Case& c : kCases) {
    INFO(c.name);
    auto parsed = ParseModelText(std::string("<ir_version: 10, opset_import: [\"\": 21]>\n") + c.graph);
    REQUIRE(parsed.ok());
    REQUIRE(InferShapes(*parsed).ok());
    Model model = *std::move(parsed);
    REQUIRE(PrepareForIntegers(model, options, false).ok());
    const QuantizePlan weights = *PlanWeights(model, options);
    const IntegerPlan integers = *PlanIntegers(model, weights, options);
    ValueRanges ranges;
    for (const RangeWanted& w : RangesWanted(model, integers)) ranges[w.name] = {-400, 400, {}};
    const auto quantized = [&](const Model& source) {
      Model out = source;
      QuantizePlan plan = weights;
      REQUIRE(ApplyIntegers(out, options, plan, integers, ranges).ok());
      return out;
    };
    const auto weights_alone = [&](const Model& source) {
      Model out = source;
      QuantizePlan plan = weights;
      REQUIRE(ApplyPlan(out, options, plan).ok());
      return out;
    };
    const Tensor x = Tensor::Of<float>(c.dims, c.at);
    const auto exact = AnswersAt(model, x);
    const double before = Distance(exact, AnswersAt(weights_alone(model), x));
    CHECK(before > 0.1);
    Model corrected = model;
    const auto count = CorrectBiases(corrected, quantized(model), integers, {{"x", {3, 7}}});
    REQUIRE(count.ok());
    CHECK(*count == c.corrected);
    const double after = Distance(exact, AnswersAt(weights_alone(corrected), x));
    if (c.corrected > 0) {
      CHECK(after < 1e-4);
    } else {
      CHECK(after == before);
    }
  }
}

}  // namespace
}  // namespace quant
