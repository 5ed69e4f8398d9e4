#include "libquant/model/opset.h"

#include "libquant/model/check.h"
#include "tests/catch.h"
#include "tests/model/parse_model.h"

namespace quant {
namespace {

Model ParseInferred(const std::string& text) {
  Model model = Parse(text);
  REQUIRE(InferShapes(model).ok());
  return model;
}

// One node of opset `from` between float inputs and outputs, raised to 21, checked and printed.
std::string Raised(int64_t from, const std::string& signature, const std::string& body) {
  Model model =
      ParseInferred(fmt::format("<ir_version: 7, opset_import: [\"\": {}]>\ng {} {{\n{}\n}}", from, signature, body));
  const Status status = RaiseOpset(model, 21);
  INFO(Message(status));
  REQUIRE(status.ok());
  REQUIRE(Verify(model.graph).ok());
  const Status checked = CheckModel(model);
  INFO(Message(checked));
  CHECK(checked.ok());
  CHECK(model.OpsetOf("") == 21);
  CHECK(model.ir_version == 10);
  return *PrintModelText(model);
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("every step of every operator from 7 to 26 has a row, or is known to have none") {
  CHECK(StepsWithoutRow(7, 26) == std::vector<std::string>{"Scan 9"});
}

TEST_CASE("every step of every operator from 26 to 13 has a row for the way down") {
  CHECK(StepsWithoutWayDown(26, kLowestOpset).empty());
}

TEST_CASE("axes become an input") {
  const std::string text = Raised(11, "(float[2,3] x) => (float[2,1] y)", "y = ReduceMean<axes = [-1]>(x)");
  CHECK(Has(text, "ReduceMean (x, "));
  CHECK_FALSE(Has(text, "axes ="));
}

TEST_CASE("Softmax over the last axis says so; over an earlier one it works on a matrix") {
  CHECK(Has(Raised(11, "(float[2,3] x) => (float[2,3] y)", "y = Softmax(x)"), "y = Softmax <axis: int = -1> (x)"));
  const std::string text = Raised(11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax(x)");
  CHECK(Has(text, "Flatten <axis: int = 1> (x)"));
  CHECK(Has(text, "y = Reshape"));
}

TEST_CASE("bounds, pads, slices, splits become inputs") {
  CHECK(Has(Raised(9, "(float[N] x) => (float[N] y)", "y = Clip<min = 0.0, max = 6.0>(x)"), "Clip (x, "));
  CHECK(Has(Raised(9, "(float[2] x) => (float[4] y)", "y = Pad<pads = [1, 1], value = 2.0>(x)"), "Pad (x, "));
  CHECK(Has(Raised(9, "(float[4] x) => (float[2] y)", "y = Slice<starts = [1], ends = [3]>(x)"), "Slice (x, "));
  CHECK(Has(Raised(11, "(float[4] x) => (float[1] y, float[3] z)", "y, z = Split<split = [1, 3]>(x)"), "Split (x, "));
  CHECK(Has(Raised(11, "(float[4] x) => (float[2] y, float[2] z)", "y, z = Split(x)"), "num_outputs: int = 2"));
}

TEST_CASE("Upsample becomes a Resize with the coordinates it had") {
  const std::string text = Raised(8, "(float[1,1,2,2] x) => (float[1,1,4,4] y)",
                                  "y = Upsample<mode = \"nearest\", scales = [1.0, 1.0, 2.0, 2.0]>(x)");
  CHECK(Has(text, "Resize"));
  CHECK(Has(text, "asymmetric"));
  CHECK(Has(text, "floor"));
}

TEST_CASE("bodies are converted too") {
  const std::string text = Raised(11, "(bool c, float[2,3] x) => (float[2] y)", R"(
    y = If(c) <
      then_branch = a () => (float[2] p) { p = ReduceSum<axes = [1], keepdims = 0>(x) },
      else_branch = b () => (float[2] q) { q = ReduceMax<axes = [1], keepdims = 0>(x) }
    >)");
  CHECK_FALSE(Has(text, "axes:"));
}

TEST_CASE("what cannot be converted is named") {
  Model model = ParseInferred(
      "<ir_version: 7, opset_import: [\"\": 8]>\ng (float[2,2,2] x) => (float[2,2,2] y) { y = "
      "BatchNormalization<spatial = 0>(x, x, x, x, x) }");
  const Status status = RaiseOpset(model, 21);
  CHECK(ExitCode(status) == 4);
  CHECK(Has(Message(status), "BatchNormalization"));
}

TEST_CASE("the IR version rises and is never lowered; below 4 initializers leave the inputs") {
  Model model = ParseInferred(
      "<ir_version: 3, opset_import: [\"\": 8]>\ng (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y "
      "= Add(x, w) }");
  REQUIRE(RaiseOpset(model, 13).ok());
  CHECK(model.ir_version == 7);
  CHECK(model.graph.main().inputs.size() == 1);
  RaiseIrVersion(model, 4);
  CHECK(model.ir_version == 7);
  REQUIRE(RaiseOpset(model, 9).ok());
  CHECK(model.OpsetOf("") == 13);
}

}  // namespace
}  // namespace quant
