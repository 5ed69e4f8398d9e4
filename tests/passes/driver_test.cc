// The driver: bounds, stopping, undoing, near misses, broken passes.
#include "passes/driver.h"

#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "libquant/model/type_clashes.h"
#include "passes/match.h"
#include "passes/pipeline.h"
#include "tests/catch.h"

namespace quant {
namespace {

Model Parse(const char* text) {
  auto model = ParseModelText(text);
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return *std::move(model);
}

constexpr const char* kThree = R"(<ir_version: 8, opset_import: ["": 17]>
g (float[N] x) => (float[N] y) {
  [i1] a = Identity(x)
  [i2] b = Identity(a)
  [relu] c = Relu(b)
  [i3] y = Identity(c)
})";

std::vector<const Pass*> Identities() { return {FindPass("eliminate-identity")}; }

// Replaces a Relu by a Relu, for ever.
const Pass kRestless = {
    .name = "restless",
    .summary = "never content",
    .roots = {"Relu"},
    .rule = [](const PassContext& context, NodeId root) -> std::optional<GraphEdit> {
      GraphEdit edit(root);
      edit.ReplaceNode(root, {.op_type = "Relu", .inputs = {ValueRef::Of(context.graph().node(root).inputs[0])}});
      return edit;
    }};

// Turns Relu into Neg.
const Pass kWrong = {.name = "wrong",
                     .summary = "changes answers",
                     .roots = {"Relu"},
                     .rule = [](const PassContext& context, NodeId root) -> std::optional<GraphEdit> {
                       GraphEdit edit(root);
                       edit.ReplaceNode(
                           root, {.op_type = "Neg", .inputs = {ValueRef::Of(context.graph().node(root).inputs[0])}});
                       return edit;
                     }};

TEST_CASE("passes run until nothing changes, and are counted") {
  Model model = Parse(kThree);
  const auto report = RunPasses(model, Identities(), {});
  REQUIRE(report.ok());
  CHECK(report->changes == 3);
  CHECK(report->rounds == 2);
  CHECK(report->settled);
  CHECK(report->nodes_before == 4);
  CHECK(report->nodes_after == 1);
  CHECK(model.graph.value(model.graph.main().outputs[0]).name == "y");
}

TEST_CASE("stopping after some changes leaves the rest") {
  for (int stop = 0; stop <= 3; ++stop) {
    Model model = Parse(kThree);
    DriverOptions options;
    options.stop_after = stop;
    const auto report = RunPasses(model, Identities(), options);
    REQUIRE(report.ok());
    CHECK(report->changes == stop);
    CHECK(report->nodes_after == 4 - stop);
  }
}

TEST_CASE("a pass that does not come to an end is a bug, not a hang") {
  Model model = Parse(kThree);
  const auto report = RunPasses(model, {&kRestless}, {});
  CHECK(ExitCode(report.status()) == 70);
  CHECK(Message(report.status()).find("restless") != std::string::npos);
}

TEST_CASE("a pass whose answers differ is undone and not run again, the others stand") {
  Model model = Parse(kThree);
  DriverOptions options;
  options.verify = [](const Model& now) -> StatusOr<std::optional<std::string>> {
    for (NodeId n : now.graph.AllNodes()) {
      if (now.graph.node(n).op_type == "Neg") return std::optional<std::string>("it is negative");
    }
    return std::optional<std::string>();
  };
  std::vector<const Pass*> passes = {&kWrong};
  passes.push_back(Identities()[0]);
  const auto report = RunPasses(model, passes, options);
  REQUIRE(report.ok());
  CHECK(report->passes[0].undone == "it is negative");
  CHECK(report->passes[0].changes == 0);
  CHECK(report->passes[1].changes == 3);
  CHECK(model.graph.AllNodes().size() == 1);
  CHECK(model.graph.node(model.graph.AllNodes()[0]).op_type == "Relu");
}

// Turns Relu into a Transpose that wants three axes.
const Pass kUnloadable = {.name = "unloadable",
                          .summary = "contradicts shapes",
                          .roots = {"Relu"},
                          .rule = [](const PassContext& context, NodeId root) -> std::optional<GraphEdit> {
                            GraphEdit edit(root);
                            Attributes attributes;
                            attributes.Set("perm", std::vector<int64_t>{2, 1, 0});
                            edit.ReplaceNode(root, {.op_type = "Transpose",
                                                    .inputs = {ValueRef::Of(context.graph().node(root).inputs[0])},
                                                    .attributes = attributes});
                            return edit;
                          }};

TEST_CASE("a pass after which runtimes would not load the model is undone") {
  Model model = Parse(kThree);
  const auto report = RunPasses(model, {&kUnloadable}, {});
  INFO(Message(report.status()));
  REQUIRE(report.ok());
  CHECK(report->passes[0].undone.find("would not load") != std::string::npos);
  CHECK(report->changes == 0);
  CHECK(report->nodes_after == 4);
}

// Gives an Add of two halves a float32 constant instead of the second.
const Pass kClashing = {.name = "clashing",
                        .summary = "mixes types",
                        .roots = {"Add"},
                        .rule = [](const PassContext& context, NodeId root) -> std::optional<GraphEdit> {
                          const Node& node = context.graph().node(root);
                          const float one = 1;
                          if (ConstantOf(context.graph(), node.inputs[1]) != nullptr) return std::nullopt;
                          GraphEdit edit(root);
                          edit.SetInput(root, 1, edit.AddConstant("one", Tensor::Of<float>({}, std::span(&one, 1))));
                          return edit;
                        }};

// Reads a DequantizeLinear's float32 scales where its readers compute in half.
const Pass kWideScales = {.name = "wide-scales",
                          .summary = "widens the scales of a DequantizeLinear",
                          .roots = {"DequantizeLinear"},
                          .rule = [](const PassContext& context, NodeId root) -> std::optional<GraphEdit> {
                            const Node& node = context.graph().node(root);
                            if (ConstantOf(context.graph(), node.inputs[1])->dtype() == DType::kFloat) {
                              return std::nullopt;
                            }
                            const float half = 0.5f;
                            GraphEdit edit(root);
                            edit.SetInput(root, 1,
                                          edit.AddConstant("scale", Tensor::Of<float>({}, std::span(&half, 1))));
                            return edit;
                          }};

void CheckClashIsUndone(const char* text, const Pass& pass, std::string_view named) {
  Model model = Parse(text);
  const auto report = RunPasses(model, {&pass, Identities()[0]}, {});
  INFO(Message(report.status()));
  REQUIRE(report.ok());
  INFO(report->passes[0].undone);
  CHECK(report->passes[0].undone.find("types would clash") != std::string::npos);
  CHECK(report->passes[0].undone.find(named) != std::string::npos);
  CHECK(report->passes[0].changes == 0);
  CHECK(report->passes[1].changes == 1);
  CHECK(TypeClashes(model).empty());
}

TEST_CASE("a pass that mixes element types is undone, the others stand") {
  CheckClashIsUndone(R"(<ir_version: 8, opset_import: ["": 17]>
g (float16[N] x, float16[N] z) => (float16[N] y) { a = Identity(x)  [sum] y = Add(a, z) })",
                     kClashing, "sum");
}

TEST_CASE("types are compared behind operators nobody knows, in bodies and in functions too") {
  CheckClashIsUndone(R"(<ir_version: 8, opset_import: ["": 17, "local": 1]>
g (float16[N] x, float16[N] z) => (float16[N] y) {
  a = Identity(x)
  b = local.Unknown(a)
  [sum] y = Add(a, z)
})",
                     kClashing, "sum");
  CheckClashIsUndone(R"(<ir_version: 8, opset_import: ["": 17]>
g (bool c, float16[N] x, float16[N] z) => (float16[N] y) {
  y = If(c) <then_branch = t () => (float16[N] p) { a = Identity(x)  [sum] p = Add(a, z) },
             else_branch = e () => (float16[N] q) { q = Neg(x) }>
})",
                     kClashing, "sum");
}

TEST_CASE("float32 scales in a float16 model are undone where the operator's output follows them") {
  CheckClashIsUndone(R"(<ir_version: 9, opset_import: ["": 19]>
g (float16[N] x) => (float16[N] y)
  <int8[2] codes = {1, 2}, float16 scale = {1}>
{
  a = Identity(x)
  w = DequantizeLinear(codes, scale)
  [product] y = Mul(a, w)
})",
                     kWideScales, "DequantizeLinear");
}

TEST_CASE("clashes that a model had are no reason to undo") {
  Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17, "local": 1]>
g (float16[N] x, float[N] z) => (float16[N] y) { a = Identity(x)  b = local.Unknown(a)  y = Add(a, z) })");
  CHECK(TypeClashes(model).size() == 1);
  const auto report = RunPasses(model, Identities(), {});
  REQUIRE(report.ok());
  CHECK(report->passes[0].undone.empty());
  CHECK(report->changes == 1);
}

TEST_CASE("a pass that makes an initializer raises an IR version that wants it listed, and only such a pass") {
  const char* const text = R"(<ir_version: 3, opset_import: ["": 9]>
g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> {
  a = Identity(x)
  c = Constant<value = float[2] {3, 4}>()
  d = Add(c, c)
  b = Mul(a, d)
  y = Add(b, w)
})";
  for (const char* name : {"fold-constants", "eliminate-identity"}) {
    Model model = Parse(text);
    const auto report = RunPasses(model, {FindPass(name)}, {});
    REQUIRE(report.ok());
    INFO(name);
    CHECK(report->changes >= 1);
    const bool makes = std::string(name) != "eliminate-identity";
    CHECK(model.ir_version == (makes ? 4 : 3));
    CHECK(model.graph.main().inputs.size() == (makes ? 1 : 2));
    CHECK(CheckModel(model).ok());
  }
}

TEST_CASE("near misses are told once, and only when asked for") {
  const char* const text = R"(<ir_version: 8, opset_import: ["": 17]>
g (float[N] x) => (float[N] y) { [same] y = Identity(x) })";
  for (bool explain : {false, true}) {
    Model model = Parse(text);
    DriverOptions options;
    options.explain = explain;
    const auto report = RunPasses(model, Identities(), options);
    REQUIRE(report.ok());
    REQUIRE(report->misses.size() == (explain ? 1 : 0));
    if (explain) CHECK(report->misses[0].node == "same");
  }
}

TEST_CASE("functions' bodies are rewritten too") {
  Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17, "local": 1]>
g (float[N] x) => (float[N] y) { y = local.f(x) }
<domain: "local", opset_import: ["": 17]>
f (a) => (b) { c = Identity(a)  b = Relu(c) })");
  const auto report = RunPasses(model, Identities(), {});
  REQUIRE(report.ok());
  CHECK(report->changes == 1);
  CHECK(model.functions[0].body.AllNodes().size() == 1);
}

TEST_CASE("unknown passes and pipelines are usage errors that name what there is") {
  CHECK(ExitCode(PassesNamed({"fold-everything"}).status()) == 2);
  CHECK(Message(PassesNamed({"fold-everything"}).status()).find("fold-constants") != std::string::npos);
  CHECK(ExitCode(ReadPipeline("nope").status()) == 2);
}

}  // namespace
}  // namespace quant
