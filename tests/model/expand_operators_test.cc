#include "libquant/model/expand_operators.h"

#include "tests/catch.h"
#include "tests/model/parse_model.h"

namespace quant {
namespace {

std::vector<std::string> Operators(const Model& model) {
  std::vector<std::string> out;
  for (NodeId n : model.graph.AllNodes()) out.push_back(model.graph.node(n).op_type);
  return out;
}

bool Has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

TEST_CASE("an operator without a kernel becomes the body by which ONNX defines it, types and all") {
  Model model = Parse("<ir_version: 10, opset_import: [\"\": 21]>\ng (int64 n) => (float[k] y) { y = HannWindow(n) }");
  REQUIRE(model.functions.empty());
  REQUIRE(ExpandOperators(model).ok());
  CHECK(!Has(Operators(model), "HannWindow"));
  CHECK(Has(Operators(model), "Cos"));
  const Value& y = model.graph.value(model.graph.main().outputs[0]);
  CHECK(y.name == "y");
  CHECK(y.dtype == DType::kFloat);
}

TEST_CASE("bodies are found in the bodies of control flow, and in bodies that came of others") {
  Model model = Parse(R"(<ir_version: 10, opset_import: ["": 21]>
g (bool c, float[2,3] x, int64[2] t) => (float y) {
  y = If (c) <then_branch = one () => (float a) { a = SoftmaxCrossEntropyLoss(x, t) },
              else_branch = two () => (float b) { b = NegativeLogLikelihoodLoss(x, t) }>
})");
  REQUIRE(ExpandOperators(model).ok());
  CHECK(!Has(Operators(model), "SoftmaxCrossEntropyLoss"));
  CHECK(!Has(Operators(model), "NegativeLogLikelihoodLoss"));
  CHECK(Has(Operators(model), "LogSoftmax"));
}

TEST_CASE("what has a kernel, or neither kernel nor body, stays") {
  Model model = Parse(
      "<ir_version: 10, opset_import: [\"\": 21]>\n"
      "g (float[2] x) => (float[2] y) { a = Gelu(x)  y = Zork(a) }");
  REQUIRE(ExpandOperators(model).ok());
  CHECK(Operators(model) == std::vector<std::string>{"Gelu", "Zork"});
}

}  // namespace
}  // namespace quant
