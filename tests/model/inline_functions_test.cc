#include "libquant/model/inline_functions.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "libquant/model/check.h"
#include "tests/catch.h"
#include "tests/model/parse_model.h"

namespace quant {
namespace {

const std::string kHead = "<ir_version: 10, opset_import: [\"\": 21, \"local\": 1]>\n";
const std::string kFunction = "<domain: \"local\", opset_import: [\"\": 21, \"local\": 1]>\n";

// The model without functions, checked and printed.
std::string Inlined(Model& model) {
  const Status status = InlineFunctions(model);
  INFO(Message(status));
  REQUIRE(status.ok());
  CHECK(model.functions.empty());
  const Status checked = CheckModel(model);
  INFO(Message(checked));
  CHECK(checked.ok());
  auto text = PrintModelText(model);
  REQUIRE(text.ok());
  return *text;
}
std::string Inlined(const std::string& text) {
  Model model = Parse(kHead + text);
  return Inlined(model);
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Operators in order, bodies after the node that holds them.
std::vector<std::string> Operators(const Model& model) {
  std::vector<std::string> out;
  for (NodeId n : model.graph.AllNodes()) out.push_back(model.graph.node(n).op_type);
  return out;
}
using Words = std::vector<std::string>;

const Node& Only(const Model& model, const std::string& type) {
  const Node* found = nullptr;
  for (NodeId n : model.graph.AllNodes()) {
    const Node& node = model.graph.node(n);
    if (node.op_type != type) continue;
    REQUIRE(found == nullptr);
    found = &node;
  }
  REQUIRE(found != nullptr);
  return *found;
}

TEST_CASE("a model without functions stays as it is") {
  Model model = Parse(kHead + "g (float[2] x) => (float[2] y) { y = Neg(x) }");
  const std::string before = *PrintModelText(model);
  REQUIRE(InlineFunctions(model).ok());
  CHECK(*PrintModelText(model) == before);
}

TEST_CASE("a call becomes the function's nodes in the call's place, and outputs keep their names") {
  Model model = Parse(kHead + R"(g (float[2] x) => (float[2] y, float[2] z) {
    a = Abs(x)
    b, y = local.f(a, x)
    z = Neg(b)
  })" + kFunction + "f (p, q) => (r, s) { t = Add(p, q)  r = Mul(t, p)  s = Sub(r, q) }");
  Inlined(model);
  CHECK(Operators(model) == Words{"Abs", "Add", "Mul", "Sub", "Identity", "Identity", "Neg"});
  CHECK(model.graph.value(model.graph.main().outputs[0]).name == "y");
  CHECK(model.graph.value(model.graph.main().outputs[1]).name == "z");
}

TEST_CASE("a constant that the call's attribute gives is one once it is expanded") {
  Model model = Parse(kHead + "g (float[2] x) => (float[2] y, int64 n) { y, n = local.f <times = 3> (x) }\n" +
                      kFunction + "f <times> (p) => (r, n) { n = Constant <value_int: int = @times> ()  r = Neg(p) }");
  Inlined(model);
  const auto constant = [&] {
    for (NodeId id : model.graph.AllNodes()) {
      const Node& node = model.graph.node(id);
      if (node.op_type == "Constant") return model.graph.value(node.outputs[0]).constant;
    }
    return std::optional<Tensor>();
  }();
  REQUIRE(constant.has_value());
  CHECK(constant->data<int64_t>()[0] == 3);
}

TEST_CASE("functions that call functions are expanded to the last one") {
  Model model =
      Parse(kHead + "g (float[2] x) => (float[2] y) { y = local.outer(x) }\n" + kFunction +
            "outer (p) => (r) { a = local.middle(p)  r = local.inner(a) }\n" + kFunction +
            "middle (p) => (r) { a = local.inner(p)  r = Abs(a) }\n" + kFunction + "inner (p) => (r) { r = Neg(p) }");
  Inlined(model);
  Words computed;
  for (const std::string& op : Operators(model)) {
    if (op != "Identity") computed.push_back(op);
  }
  CHECK(computed == Words{"Neg", "Abs", "Neg"});
}

TEST_CASE("a function called twice leaves names that differ, from each other and from the graph's") {
  Model model = Parse(kHead + R"(g (float[2] t) => (float[2] y, float[2] z) {
    "f/t" = Neg(t)
    "f/t_1" = Abs("f/t")
    y = local.f("f/t_1")
    z = local.f(y)
  })" + kFunction + "f (p) => (r) { t = Relu(p)  \"t_1\" = Sin(t)  r = Cos(\"t_1\") }");
  Inlined(model);
  std::set<std::string> names;
  size_t count = 0;
  for (ValueId v = 0; v < model.graph.value_count(); ++v) {
    if (model.graph.value(v).removed) continue;
    names.insert(model.graph.value(v).name);
    ++count;
  }
  CHECK(names.size() == count);
  CHECK(Verify(model.graph).ok());
}

TEST_CASE("names inside get the call's name before them") {
  const std::string text = Inlined("g (float[2] x) => (float[2] y) { [\"call\"] y = local.f(x) }\n" + kFunction +
                                   "f (p) => (r) { [\"first\"] t = Relu(p)  r = Neg(t) }");
  CHECK(Has(text, "[\"call/first\"] \"call/t\" = Relu (x)"));
}

TEST_CASE("attributes come from the call, else from the function's default") {
  const std::string function = "f <alpha: float = 0.25> (p) => (r) { r = Elu<alpha: float = @alpha>(p) }";
  for (const auto& [call, wanted] : {std::pair<std::string, float>{"<alpha = 2.0>", 2.0f}, {"", 0.25f}}) {
    Model model = Parse(
        absl::StrCat(kHead, "g (float[2] x) => (float[2] y) { y = local.f", call, "(x) }\n", kFunction, function));
    Inlined(model);
    CHECK(Only(model, "Elu").attributes.Float("alpha", -1) == wanted);
  }
}

TEST_CASE("an attribute without a default that the call leaves out is left out inside") {
  const std::string function = "f <slope> (p) => (r) { r = LeakyRelu<alpha: float = @slope>(p) }";
  Model without = Parse(kHead + "g (float[2] x) => (float[2] y) { y = local.f(x) }\n" + kFunction + function);
  Inlined(without);
  CHECK_FALSE(Only(without, "LeakyRelu").attributes.Has("alpha"));
  Model with = Parse(kHead + "g (float[2] x) => (float[2] y) { y = local.f<slope = 0.5>(x) }\n" + kFunction + function);
  Inlined(with);
  CHECK(Only(with, "LeakyRelu").attributes.Float("alpha", -1) == 0.5f);
}

TEST_CASE("attributes are handed on through nested calls, into bodies too") {
  const std::string functions =
      kFunction + "outer <slope: float = 0.125> (c, p) => (r) { r = local.inner<alpha: float = @slope>(c, p) }\n" +
      kFunction + R"(inner <alpha: float = 9.0> (c, p) => (r) {
    r = If(c) <
      then_branch = a () => (t) { t = Elu<alpha: float = @alpha>(p) },
      else_branch = b () => (u) { u = Neg(p) }>
  })";
  for (const auto& [call, wanted] : {std::pair<std::string, float>{"<slope = 2.0>", 2.0f}, {"", 0.125f}}) {
    Model model = Parse(
        absl::StrCat(kHead, "g (bool c, float[2] x) => (float[2] y) { y = local.outer", call, "(c, x) }\n", functions));
    Inlined(model);
    CHECK(Only(model, "Elu").attributes.Float("alpha", -1) == wanted);
  }
}

TEST_CASE("optional inputs left out stay out, at the end and in the middle") {
  const std::string function = "f (p, low, high) => (r) { r = Clip(p, low, high) }";
  const auto inputs = [&](const std::string& call) {
    Model model =
        Parse(kHead + "g (float[2] x, float a) => (float[2] y) { y = local.f" + call + " }\n" + kFunction + function);
    Inlined(model);
    std::string out;
    for (ValueId v : Only(model, "Clip").inputs) out += v == kNoValue ? "-" : model.graph.value(v).name;
    return out;
  };
  CHECK(inputs("(x, a, a)") == "xaa");
  CHECK(inputs("(x, a)") == "xa");
  CHECK(inputs("(x)") == "x");
  CHECK(inputs("(x, \"\", a)") == "x-a");
}

TEST_CASE("outputs left out of a call are not made, and an output may be an input of the function") {
  Model model = Parse(kHead + "g (float[2] x) => (float[2] y) { \"\", y = local.f(x) }\n" + kFunction +
                      "f (p) => (r, p) { r = Neg(p) }");
  Inlined(model);
  CHECK(Only(model, "Identity").inputs == model.graph.main().inputs);
}

TEST_CASE("a call with more outputs than the function, or for an input left out, is an error") {
  const auto code = [](const std::string& call, const std::string& function) {
    auto model =
        ParseModelText(kHead + "g (float[2] x) => (float[2] y, float[2] z) { " + call + " }\n" + kFunction + function);
    if (!model.ok()) return ExitCode(model.status());
    return ExitCode(InlineFunctions(*model));
  };
  CHECK(code("y, z = local.f(x)", "f (p) => (r) { r = Neg(p) }") == 3);
  CHECK(code("y, z = local.f(x)", "f (p, q) => (r, q) { r = Neg(p) }") == 3);
}

TEST_CASE("calls inside bodies are expanded there, and a function's bodies read what is around them") {
  Model model = Parse(kHead + R"(g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    y = If(c) <
      then_branch = a () => (float[2] p) { p = local.f(c, x, w) },
      else_branch = b () => (float[2] q) { q = Neg(x) }>
  })" + kFunction + R"(f (c, p, q) => (r) {
    k = Abs(p)
    r = If(c) <
      then_branch = a () => (t) { s = Add(k, q)  t = Mul(s, p) },
      else_branch = b () => (k) { }>
  })");
  REQUIRE(InlineFunctions(model).ok());  // ends with Verify; ONNX's checker takes no captured outputs
  const Node& add = Only(model, "Add");
  CHECK(model.graph.value(add.inputs[1]).name == "w");
  CHECK(model.graph.region(model.graph.region(add.region).parent).parent == kMainRegion);
  CHECK(Only(model, "Abs").region == model.graph.region(add.region).parent);
}

TEST_CASE("a function's Loop keeps the inputs and constants of its body, nested ones too") {
  Model model = Parse(kHead +
                      "g (int64 n, bool c, float[2] x) => (float[2] y, float[2] z) { y = local.f(n, c, x)  z = "
                      "local.f(n, c, y) }\n" +
                      kFunction + R"(f (n, c, x) => (r) {
    r = Loop(n, c, x) <body = b (int64 i, bool go, float[2] s) => (bool go, float[2] t) <float[2] w = {3, 4}> {
      u = Add(s, w)
      t = If(go) <then_branch = p () => (float[2] v) { v = Mul(u, w) }, else_branch = q () => (float[2] s) { }>
    }>
  })");
  REQUIRE(InlineFunctions(model).ok());  // ends with Verify; ONNX's checker takes no captured outputs
  CHECK(Operators(model) == Words{"Loop", "Add", "If", "Mul", "Identity", "Loop", "Add", "If", "Mul", "Identity"});
}

TEST_CASE("constants of a function come along") {
  const std::string text = Inlined("g (float[2] x) => (float[2] y) { a = local.f(x)  y = local.f(a) }\n" + kFunction +
                                   "f (p) => (r) { w = Constant<value = float[2] {3, 4}>()  r = Mul(p, w) }");
  CHECK(Has(text, "Mul"));
  CHECK_FALSE(Has(text, "local.f"));
}

TEST_CASE("functions of another opset raise all to the newest") {
  for (const auto& [graph, function] : {std::pair{13, 11}, {11, 13}}) {
    Model model = Parse(fmt::format(R"(<ir_version: 8, opset_import: ["": {}, "local": 1]>
      g (float[2,3] x) => (float[2,3] y) {{ y = local.f(x) }}
      <domain: "local", opset_import: ["": {}]> f (p) => (r) {{ r = Relu(p) }})",
                                    graph, function));
    Inlined(model);
    CHECK(model.OpsetOf("") == 13);
  }
  // Softmax over the last axis by default since 13; a function of 11 has it over a matrix.
  Model model = Parse(R"(<ir_version: 8, opset_import: ["": 13, "local": 1]>
    g (float[2,3,4] x) => (float[2,3,4] y) { y = local.f(x) }
    <domain: "local", opset_import: ["": 11]> f (p) => (r) { r = Softmax<axis = 2>(p) })");
  Inlined(model);
  CHECK(Only(model, "Softmax").attributes.Int("axis", -1) != 1);
  Model old_graph = Parse(R"(<ir_version: 8, opset_import: ["": 9, "local": 1]>
    g (float[4] x) => (float[6] y) { a = Pad<pads = [1, 1]>(x)  y = local.f(a) }
    <domain: "local", opset_import: ["": 13]> f (p) => (r) { r = Relu(p) })");
  Inlined(old_graph);
  CHECK(Only(old_graph, "Pad").inputs.size() >= 2);
}

TEST_CASE("a domain that only a function imports is imported") {
  Model model = Parse(kHead + "g (float[2] x) => (float[2] y) { y = local.f(x) }\n" +
                      "<domain: \"local\", opset_import: [\"\": 21, \"com.microsoft\": 1]>\n" +
                      "f (p) => (r) { r = com.microsoft.QuickGelu(p) }");
  REQUIRE(InlineFunctions(model).ok());
  CHECK(model.OpsetOf("com.microsoft") == 1);
}

TEST_CASE("functions of one name in two domains are told apart") {
  Model model = Parse(
      "<ir_version: 10, opset_import: [\"\": 21, \"local\": 1, \"other\": 1]>\n"
      "g (float[2] x) => (float[2] y) { a = local.f(x)  y = other.f(a) }\n" +
      kFunction + "f (p) => (r) { r = Neg(p) }\n" +
      "<domain: \"other\", opset_import: [\"\": 21]> f (p) => (r) { r = Abs(p) }");
  Inlined(model);
  CHECK(Operators(model) == Words{"Neg", "Identity", "Abs", "Identity"});
}

std::string Doubling(int depth) {
  std::string text = kHead + "g (float[2] x) => (float[2] y) { y = local.f0(x) }\n";
  for (int i = 0; i < depth; ++i) {
    text += kFunction + fmt::format("f{0} (p) => (r) {{ a = local.f{1}(p)  r = local.f{1}(a) }}\n", i, i + 1);
  }
  return text + kFunction + fmt::format("f{} (p) => (r) {{ r = Neg(p) }}", depth);
}

TEST_CASE("functions that double at every level are expanded to the last call") {
  Model some = Parse(Doubling(8));
  REQUIRE(InlineFunctions(some).ok());
  CHECK(std::count_if(some.graph.main().nodes.begin(), some.graph.main().nodes.end(),
                      [&](NodeId n) { return some.graph.node(n).op_type == "Neg"; }) == 256);
}

TEST_CASE("functions that expand to more than anyone has memory for are refused when they are read") {
  const auto doubled = ParseModelText(Doubling(40));
  REQUIRE_FALSE(doubled.ok());
  CHECK(ExitCode(doubled.status()) == 4);
  std::string chain = kHead + "g (float[2] x) => (float[2] y) { y = local.f0(x) }\n";
  for (int i = 0; i < 65; ++i) chain += kFunction + fmt::format("f{} (p) => (r) {{ r = local.f{}(p) }}\n", i, i + 1);
  const auto deep = ParseModelText(chain + kFunction + "f65 (p) => (r) { r = Neg(p) }");
  REQUIRE_FALSE(deep.ok());
  CHECK(ExitCode(deep.status()) == 4);
}

TEST_CASE("functions that call themselves are refused") {
  for (const std::string& functions :
       {kFunction + "f (p) => (r) { r = local.f(p) }",
        absl::StrCat(kFunction, "f (p) => (r) { r = local.h(p) }\n", kFunction, "h (p) => (r) { r = local.f(p) }")}) {
    auto model = ParseModelText(absl::StrCat(kHead, "g (float[2] x) => (float[2] y) { y = local.f(x) }\n", functions));
    CHECK((!model.ok() || !InlineFunctions(*model).ok()));
  }
}

}  // namespace
}  // namespace quant
