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
  CHECK(StepsWithoutRow(7, kHighestOpset) == std::vector<std::string>{"Scan 9"});
}

TEST_CASE("every step of every operator from 26 to 13 has a row for the way down") {
  CHECK(StepsWithoutWayDown(kHighestOpset, kLowestOpset).empty());
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

// One node of opset `from`, lowered to `to`, checked and printed.
StatusOr<std::string> Lowered(int64_t from, int64_t to, const std::string& signature, const std::string& body) {
  Model model =
      ParseInferred(fmt::format("<ir_version: 10, opset_import: [\"\": {}]>\ng {} {{\n{}\n}}", from, signature, body));
  RETURN_IF_ERROR(LowerOpset(model, to));
  REQUIRE(Verify(model.graph).ok());
  const Status checked = CheckModel(model);
  INFO(Message(checked));
  CHECK(checked.ok());
  CHECK(model.OpsetOf("") == to);
  CHECK(model.ir_version == MinIrVersion(to));
  return *PrintModelText(model);
}

// The message that ends a lowering; exit code 4.
std::string Refused(int64_t from, int64_t to, const std::string& signature, const std::string& body) {
  const auto lowered = Lowered(from, to, signature, body);
  REQUIRE_FALSE(lowered.ok());
  CHECK(ExitCode(lowered.status()) == 4);
  return Message(lowered.status());
}

TEST_CASE("axes become an attribute again") {
  const std::string sum = "(float[2,3] x) => (float[2,1] y) <int64[1] a = {-1}>";
  CHECK(Has(*Lowered(18, 13, sum, "y = ReduceMean(x, a)"), "ReduceMean <axes: ints = [-1]> (x)"));
  CHECK(Has(*Lowered(18, 13, sum, "y = ReduceMean<noop_with_empty_axes = 1>(x, a)"), "<axes: ints = [-1]> (x)"));
  CHECK(Has(*Lowered(18, 17, "(float[2,3] x) => (float[1,1] y)", "y = ReduceMax(x)"), "ReduceMax (x)"));
  CHECK(Has(Refused(18, 17, "(float[2,3] x, int64[1] a) => (float[2,1] y)", "[mean] y = ReduceMean(x, a)"),
            "node mean, to opset 17: input 1 of ReduceMean is no constant"));
  CHECK(Has(Refused(18, 17, "(float[2,3] x) => (float[2,3] y)", "y = ReduceMean<noop_with_empty_axes = 1>(x)"),
            "over no axes"));
}

TEST_CASE("pads, sizes and shapes are spelled out") {
  const std::string pad = *Lowered(18, 13, "(float[2,3] x) => (float[2,6] y) <int64[2] p = {1, 2}, int64[1] a = {-1}>",
                                   "y = Pad(x, p, , a)");
  CHECK(Has(pad, "{0,1,0,2}"));
  CHECK_FALSE(Has(pad, " a ="));
  CHECK(Has(*Lowered(18, 13, "(float[2,3] x, int64[2] p) => (float[2,N] y) <int64[1] a = {1}>", "y = Pad(x, p, , a)"),
            "ScatterElements"));
  CHECK(Has(
      *Lowered(18, 13, "(float[1,1,2,2] x) => (float[1,1,4,2] y) <float[1] s = {2}>", "y = Resize<axes = [2]>(x, , s)"),
      "{1,1,2,1}"));
  CHECK(Has(*Lowered(18, 13, "(float[1,1,2,2] x) => (float[1,1,4,2] y) <int64[1] s = {4}>",
                     "y = Resize<axes = [-2]>(x, , , s)"),
            "{1,1,4,2}"));
  CHECK(Has(*Lowered(15, 13, "(float[2,3,4] x) => (int64[2] y)", "y = Shape<start = 1>(x)"), "y = Slice"));
  CHECK(Has(
      *Lowered(18, 13, "(float[5] x) => (float[2] y, float[2] z, float[1] w)", "y, z, w = Split<num_outputs = 3>(x)"),
      "{2,2,1}"));
  CHECK_FALSE(Has(*Lowered(18, 13, "(float[4] x) => (float[2] y, float[2] z)", "y, z = Split<num_outputs = 2>(x)"),
                  "num_outputs"));
  CHECK(Has(Refused(18, 13, "(float[N] x) => (float[M] y, float[K] z)", "y, z = Split<num_outputs = 2>(x)"),
            "unknown length"));
}

TEST_CASE("a Resize along some axes is spelled out wherever the values of the graph come to lie") {
  for (int more = 0; more < 20; ++more) {
    std::string nodes;
    for (int i = 0; i < more; ++i) nodes += fmt::format("t{} = Relu(x) ", i);
    const auto text = Lowered(18, 13, "(float[1,1,2,2] x) => (float[1,1,4,2] y) <int64[1] s = {4}>",
                              nodes + "y = Resize<axes = [2]>(x, , , s)");
    REQUIRE(text.ok());
    CHECK(Has(*text, "{1,1,4,2}"));
  }
}

TEST_CASE("what is at its default goes, what is not is named") {
  CHECK_FALSE(Has(*Lowered(14, 13, "(float[4] x, int64[1] d) => (float[4] y)", "y = Reshape<allowzero = 0>(x, d)"),
                  "allowzero"));
  CHECK(
      Has(Refused(14, 13, "(float[4] x, int64[1] d) => (float[4] y)", "y = Reshape<allowzero = 1>(x, d)"), "constant"));
  CHECK(Has(Refused(18, 17, "(float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1, 0.5, 0.5}>",
                    "y = Resize<antialias = 1, mode = \"linear\">(x, , s)"),
            "no attribute antialias in opset 17"));
  CHECK(Has(Refused(19, 18, "(float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1, 0.5, 0.5}>",
                    "y = Resize<coordinate_transformation_mode = \"half_pixel_symmetric\">(x, , s)"),
            "half_pixel_symmetric"));
  CHECK(Has(Refused(22, 21, "(bfloat16[1,1,4] x, bfloat16[1,1,1] w) => (bfloat16[1,1,4] y)", "y = Conv(x, w)"),
            "Conv does not take bfloat16 (input 0) in opset 21"));
  CHECK(Has(Refused(21, 20, "(float[2,4,3] x, float[4] s) => (float[2,4,3] y)",
                    "y = GroupNormalization<num_groups = 2>(x, s, s)"),
            "--decompose GroupNormalization"));
  CHECK(Has(Refused(20, 13, "(float[2] x) => (float[2] y)", "[act] y = Gelu(x)"),
            "node act, to opset 19: operator Gelu came with opset 20; --decompose Gelu"));
  CHECK(Has(*Lowered(20, 16, "(float[1,1,2,2] x, float[1,2,2,2] g) => (float[1,1,2,2] y)", "y = GridSample(x, g)"),
            "bilinear"));
  CHECK(
      Has(*Lowered(24, 13, "(float[2] x) => (int64[2] y)", "y = Cast<to = 7, saturate = 0>(x)"), "Cast <to: int = 7>"));
}

TEST_CASE("bodies and functions are lowered too, and what is raised again is the same") {
  const std::string text = *Lowered(18, 13, "(bool c, float[2,3] x) => (float[2] y) <int64[1] a = {1}>", R"(
    y = If(c) <
      then_branch = t () => (float[2] p) { p = ReduceMean<keepdims = 0>(x, a) },
      else_branch = e () => (float[2] q) { q = ReduceMax<keepdims = 0>(x, a) }
    >)");
  CHECK(Has(text, "ReduceMean <keepdims: int = 0, axes: ints = [1]> (x)"));
  CHECK(Has(text, "ReduceMax <keepdims: int = 0, axes: ints = [1]> (x)"));
  Model model = ParseInferred(R"(
    <ir_version: 10, opset_import: ["": 18, "local": 1]>
    g (float[2,3] x) => (float[1,1] y) { y = local.f(x) }
    <opset_import: ["": 18], domain: "local">
    f (x) => (y) { y = ReduceMean<noop_with_empty_axes = 0>(x) })");
  REQUIRE(LowerOpset(model, 14).ok());
  CHECK_FALSE(Has(*PrintModelText(model), "noop_with_empty_axes"));
  CHECK(model.functions[0].opsets[0].second == 14);
  CHECK(model.ir_version == 8);  // functions need it
  REQUIRE(RaiseOpset(model, 26).ok());
  CHECK(model.ir_version == 13);
  CHECK(ExitCode(LowerOpset(model, 12)) == 4);
}

}  // namespace
}  // namespace quant
