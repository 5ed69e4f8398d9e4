// Findings about graphs: each where it belongs, and not beside it.
#include "tests/lint/lint_model.h"

namespace quant {
namespace {

using Words = std::vector<std::string>;

const std::string kRelu = "g (float[2,4] x) => (float[2,4] y) { [r] y = Relu(x) }";

// A model whose body has two inputs and one output of the same float type.
std::string Graph2(const std::string& nodes) {
  return "g (float[2,4] a, float[2,4] b) => (float[2,4] y) { " + nodes + " }";
}

TEST_CASE("nothing is found in a sound small model") { CHECK(LintFor(ModelOf(kRelu)).empty()); }

TEST_CASE("kinds of findings have ids of their own, found by id") {
  for (const FindingKind& kind : FindingKinds()) {
    INFO(kind.id);
    CHECK(FindFindingKind(kind.id) == &kind);
    CHECK(&KindOf(kind.finding) == &kind);
    CHECK(kind.id.find('.') != std::string_view::npos);
  }
  CHECK(FindFindingKind("weight.none") == nullptr);
}

TEST_CASE("soundness: checker, inference, graph, unknown ranks") {
  CHECK(Found(ModelOf("g (float[2,4] x) => (float[2,4] y) { [r] y = Relu<bad = 1>(x) }"), "model.checker").size() == 1);
  CHECK(Found(ModelOf(kRelu), "model.checker").empty());
  const Model clash = ModelOf("g (float[2,4] x) => (int64[2,4] y) { [m] y = Relu(x) }");
  CHECK(Found(clash, "model.declared-output").size() == 1);
  const Model wrong = ModelOf("g (float[2,4] x) => (float[3,4] y) { [m] y = Relu(x) }");
  CHECK(Found(wrong, "model.declared-output").at(0).where == Words{"y: float32 3 x 4 declared, float32 2 x 4 found"});
  const Model vague = ModelOf("g (float[2,4] x) => (float[n,4] y) { [m] y = Relu(x) }");
  CHECK(Found(vague, "model.declared-output").empty());
  const std::string product =
      "g (float[2,4] a, float[{},3] b) => (float[2,3] y) {{ [m] t = MatMul(a, b) [r] y = Relu(t) }}";
  const Model inner = ModelOf(fmt::format(fmt::runtime(product), 5));
  CHECK(Found(inner, "model.inference").at(0).what.find("m") != std::string::npos);
  CHECK(Found(inner, "model.inference").at(0).severity == Severity::kError);
  CHECK(Found(ModelOf(fmt::format(fmt::runtime(product), 4)), "model.inference").empty());
  Model broken = ModelOf(kRelu);
  broken.graph.value(ValueNamed(broken.graph, "x")).uses.clear();
  CHECK(Found(broken, "model.graph").size() == 1);
  CHECK(Found(ModelOf(kRelu), "model.graph").empty());
  const std::string reshape =
      "g (float[2,4] x, int64[N] s) => (float[a,b] y) { [p] t = Reshape(x, s) [q] y = Reshape(t, s) }";
  CHECK(Found(ModelOf(reshape), "model.unknown-shape").at(0).where == Words{"t"});
  CHECK(Found(ModelOf("g (float[2,4] x, int64[2] s) => (float[a,b] y) { [p] t = Reshape(x, s) [q] y = Reshape(t, s) }"),
              "model.unknown-shape")
            .empty());
}

TEST_CASE("opsets: old, outside of the target's, imported for nothing") {
  CHECK(Found(ModelOf(kRelu, "\"\": 16"), "opset.old").size() == 1);
  CHECK(Found(ModelOf(kRelu, "\"\": 17"), "opset.old").empty());
  CHECK(Found(ModelOf(kRelu, "\"\": 8"), "target.opset", "tensorrt").at(0).next == "export with opset 9");
  CHECK(Found(ModelOf(kRelu, "\"\": 9"), "target.opset", "tensorrt").empty());
  CHECK(Found(ModelOf(kRelu, "\"\": 24", 10), "target.opset", "tensorrt").empty());
  CHECK(Found(ModelOf(kRelu, "\"\": 25", 10), "target.opset", "tensorrt").at(0).severity == Severity::kError);
  CHECK(Found(ModelOf(kRelu, "\"\": 17, \"ai.onnx.ml\": 3"), "opset.unused-import").at(0).where ==
        Words{"ai.onnx.ml 3"});
  const std::string gelu = "g (float[2,4] x) => (float[2,4] y) { [r] y = com.microsoft.Gelu(x) }";
  CHECK(Found(ModelOf(gelu, "\"\": 17, \"com.microsoft\": 1"), "opset.unused-import").empty());
}

TEST_CASE("open dimensions of inputs, with the command that fixes them") {
  const Model model =
      ModelOf("g (float[batch,4] x, float[batch,?] z) => (float[batch,4] y) { [r] y = Relu(x) [s] t = Relu(z) }");
  const Finding f = Found(model, "input.dynamic").at(0);
  CHECK(f.severity == Severity::kNote);
  CHECK(f.where.at(0) == "x: batch x 4");
  CHECK(f.next.find("--dim batch=1 --input z=1xN") != std::string::npos);
  CHECK(Found(model, "target.dynamic", "qnn").at(0).severity == Severity::kWarning);
  CHECK(Found(model, "input.dynamic", "qnn").empty());
  CHECK(Found(model, "target.dynamic", "onnxruntime-cpu").empty());
  const Model nameless = ModelOf("g (float[?,4] x) => (float[a,4] y) { [r] y = Relu(x) }");
  CHECK(Found(nameless, "input.dynamic").at(0).next.find("--input x=Nx4") != std::string::npos);
  CHECK(Found(ModelOf(kRelu), "input.dynamic").empty());
}

TEST_CASE("open dimensions that data make, for a target of fixed shapes") {
  const Model model = ModelOf("g (float[2,4] x) => (int64[2,n] y) { [z] t = NonZero(x) [i] y = Identity(t) }");
  CHECK(Found(model, "target.dynamic-inside", "qnn").at(0).where.at(0) == "t: 2 x ?");
  CHECK(Found(model, "target.dynamic-inside", "onnxruntime-cpu").empty());
  CHECK(Found(ModelOf(kRelu), "target.dynamic-inside", "qnn").empty());
}

TEST_CASE("inputs and constants that nothing reads, and those that can be overridden") {
  const Model model = ModelOf(
      "g (float[2,4] x, float[2] spare) => (float[2,4] y) <float[1] w = {1}, float[1] used = {2}> { [r] y = Mul(x, "
      "used) "
      "}");
  CHECK(Found(model, "input.unused").at(0).where == Words{"spare"});
  CHECK(Found(model, "initializer.unused").at(0).where == Words{"w"});
  CHECK(Found(model, "initializer.is-input").empty());
  const std::string both = "g (float[2,4] x, float[1] w = {3}) => (float[2,4] y) { [r] y = Mul(x, w) }";
  CHECK(Found(ModelOf(both), "initializer.is-input").at(0).where == Words{"w"});
  CHECK(Found(ModelOf(both, "\"\": 8", 3), "initializer.is-input").empty());  // a duty then
}

TEST_CASE("a constant that only a body reads is used") {
  const Model model = ModelOf(
      "g (bool c, float[4] x) => (float[4] y) <float[1] w = {1}> { [i] y = If (c) <then_branch = t () => (float[4] a) "
      "{ "
      "[m] a = Mul(x, w) }, else_branch = e () => (float[4] b) { [n] b = Relu(x) }> }");
  CHECK(Found(model, "initializer.unused").empty());
  CHECK(Found(model, "input.unused").empty());
  CHECK(Found(model, "graph.nested").at(0).where == Words{"i (If)"});
  CHECK(Found(model, "target.operator", "tflite").empty());
  CHECK(Found(ModelOf(kRelu), "graph.nested").empty());
}

TEST_CASE("operators that the target does not run") {
  const Model model = ModelOf(Graph2("[d] t = Det2(a) [m] y = Min(a, b)"));
  CHECK(Found(model, "target.operator", "tensorrt").at(0).where == Words{"d"});
  CHECK(Found(model, "target.operator", "tensorrt").at(0).severity == Severity::kError);
  CHECK(Found(model, "target.operator", "qnn").at(0).severity == Severity::kWarning);
  CHECK(Found(ModelOf(Graph2("[m] y = Min(a, b)")), "target.operator", "tensorrt").empty());
}

TEST_CASE("operators of other domains: a warning for portable, none where the target has them") {
  const std::string gelu = "g (float[2,4] x) => (float[2,4] y) { [r] y = com.microsoft.Gelu(x) }";
  const Model model = ModelOf(gelu, "\"\": 17, \"com.microsoft\": 1");
  CHECK(Found(model, "target.operator").at(0).severity == Severity::kWarning);
  CHECK(Found(model, "target.operator", "onnxruntime-cpu").empty());
  CHECK(Found(model, "target.operator", "tensorrt").at(0).severity == Severity::kError);
  CHECK(Found(model, "op.no-kernel").empty());
  const Model own = ModelOf("g (float[2,4] x) => (float[2,4] y) { [r] y = mine.Thing(x) }", "\"\": 17, \"mine\": 1");
  CHECK(Found(own, "target.operator", "onnxruntime-cpu").size() == 1);
  CHECK(Found(own, "op.no-kernel").at(0).where.size() == 1);
}

TEST_CASE("a call of the model's own function is no operator; what is in it is") {
  const std::string graph = "g (float[2,4] x) => (float[2,4] y) { [c] y = local.f(x) }\n";
  const std::string function = "<domain: \"local\", opset_import: [\"\": 17]>\nf (p) => (r) { [s] r = ";
  const std::string opsets = "\"\": 17, \"local\": 1";
  const Model good = ModelOf(graph + function + "Relu(p) }", opsets);
  CHECK(Found(good, "target.operator", "tensorrt").empty());
  CHECK(Found(good, "op.no-kernel").empty());
  CHECK(Found(good, "opset.unused-import").empty());
  CHECK(Found(ModelOf(graph + function + "Det(p) }", opsets), "target.operator", "tensorrt").size() == 1);
}

TEST_CASE("what every runtime computes beforehand asks nothing of the target") {
  // qnn lists neither ConstantOfShape nor Size.
  const std::string filled = "[s] n = Shape(a) [f] t = ConstantOfShape(n) [m] y = Add(a, t)";
  CHECK(Found(ModelOf(Graph2(filled)), "target.operator", "qnn").empty());
  const Model open =
      ModelOf("g (float[n,4] a) => (float[n,4] y) { [s] n = Shape(a) [f] t = ConstantOfShape(n) [m] y = Add(a, t) }");
  CHECK(Found(open, "target.operator", "qnn").at(0).where == Words{"f"});
  const Model drawn =
      ModelOf("g (float[2] a) => (float[2] y) { [f] t = RandomNormal<shape = [2]>() [m] y = Add(a, t) }");
  CHECK(Found(drawn, "target.operator", "qnn").size() == 1);
  CHECK(Found(drawn, "op.random").at(0).where == Words{"f (RandomNormal)"});
  CHECK(Found(ModelOf(kRelu), "op.random").empty());
}

TEST_CASE("operators under conditions, types that a target does not take") {
  const Model top = ModelOf("g (float[2,4] x, int64[1] k) => (float[2,m] y) { [t] y, i = TopK(x, k) }");
  CHECK(Found(top, "target.limit", "tensorrt").at(0).what.find("K below 3840") != std::string::npos);
  CHECK(Found(top, "target.limit", "onnxruntime-cpu").empty());
  Model half = ModelOf("g (float16[2] x) => (float16[2] y) { [r] y = Relu(x) }");
  LintOptions options;
  options.target.float16 = false;
  const auto found = Lint(half, options);
  REQUIRE(found.ok());
  CHECK(KindOf(found->at(0).finding).id == "target.float16");
  const Model four = ModelOf(
      "g (float[2] x) => (float[2] y) <int4[2] w = {33}, float s = {0.5}> { [d] t = DequantizeLinear(w, s) [a] y = "
      "Add(x, t) }",
      "\"\": 21", 10);
  CHECK(Found(four, "target.int4", "tflite").size() == 1);
  CHECK(Found(four, "target.int4", "openvino").empty());
}

TEST_CASE("element types that a target does not take of an operator") {
  const auto conv = [](const std::string& type) {
    return ModelOf("g (" + type + "[1,2,4,4] x, " + type + "[2,2,1,1] w) => (" + type +
                   "[1,2,4,4] y) { [c] t = Conv(x, w) [r] y = Relu(t) }");
  };
  const Finding f = Found(conv("double"), "target.type", "onnxruntime-cpu").at(0);
  CHECK(f.what == "Conv of float64: 1 node, not run by onnxruntime-cpu");
  CHECK(f.where == Words{"c"});  // Relu has a kernel of float64
  CHECK(f.severity == Severity::kError);
  CHECK(Found(conv("float16"), "target.type", "onnxruntime-cpu").empty());
  CHECK(Found(conv("bfloat16"), "target.type", "onnxruntime-cpu").size() == 2);
  CHECK(Found(conv("bfloat16"), "target.type", "tensorrt").empty());
  CHECK(Found(conv("double"), "target.type", "qnn").empty());  // not known
  CHECK(Found(conv("double"), "target.type").empty());
  // The main input is the first whose type may vary: data, not the condition; the table, not the indices.
  const Model where = ModelOf("g (bool[2] c, int8[2] a, int8[2] b) => (int8[2] y) { [w] y = Where(c, a, b) }");
  CHECK(Found(where, "target.type", "onnxruntime-cpu").at(0).what.find("Where of int8") == 0);
  const Model gather = ModelOf("g (bfloat16[2,4] x, int32[3] i) => (bfloat16[3,4] y) { [g] y = Gather(x, i) }");
  CHECK(Found(gather, "target.type", "onnxruntime-cpu").empty());
}

TEST_CASE("what every runtime computes beforehand may have any element type") {
  const std::string add = "{ [t] t = Add(c, c) [u] u = Cast<to = 1>(t) [a] y = Mul(x, u) }";
  CHECK(Found(ModelOf("g (float[2] x) => (float[2] y) <uint16[1] c = {3}> " + add), "target.type", "tensorrt").empty());
  CHECK(Found(ModelOf("g (float[2] x, uint16[1] c) => (float[2] y) " + add), "target.type", "tensorrt").size() == 2);
}

TEST_CASE("leftovers of training") {
  const std::string drop = "g (float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}, bool f = {0}> { [d] y = ";
  CHECK(Found(ModelOf(drop + "Dropout(x, r, t) }"), "op.training").size() == 1);
  CHECK(Found(ModelOf(drop + "Dropout(x, r, f) }"), "op.training").empty());
  CHECK(Found(ModelOf(drop + "Dropout(x, r) }"), "op.training").empty());
  const std::string norm =
      "g (float[2,3] x) => (float[2,3] y) <float[3] s = {1,1,1}, float[3] b = {0,0,0}> { [n] y{} = "
      "BatchNormalization<training_mode = {}>(x, s, b, b, s) }";
  const auto norm_model = [&](const std::string& more, const std::string& mode) {
    std::string text = norm;
    text.replace(text.find("{} ="), 2, more);
    text.replace(text.find("= {}>"), 4, "= " + mode);
    return ModelOf(text);
  };
  CHECK(Found(norm_model(", m, v", "1"), "op.training").size() == 1);
  CHECK(Found(norm_model("", "0"), "op.training").empty());
}

TEST_CASE("names of nodes: none, repeated") {
  CHECK(Found(ModelOf(Graph2("t = Add(a, b) [n] y = Relu(t)")), "node.unnamed").at(0).what ==
        "1 of 2 nodes without a name");
  CHECK(Found(ModelOf(Graph2("[m] t = Add(a, b) [n] y = Relu(t)")), "node.unnamed").empty());
  CHECK(Found(ModelOf(Graph2("[n] t = Add(a, b) [n] y = Relu(t)")), "node.repeated-name").at(0).where == Words{"n"});
  CHECK(Found(ModelOf(Graph2("[m] t = Add(a, b) [n] y = Relu(t)")), "node.repeated-name").empty());
}

TEST_CASE("float64") {
  CHECK(Found(ModelOf("g (double[2] x) => (double[2] y) { [r] y = Relu(x) }"), "type.double").at(0).where ==
        Words{"x", "y"});
  CHECK(Found(ModelOf(kRelu), "type.double").empty());
}

}  // namespace
}  // namespace quant
