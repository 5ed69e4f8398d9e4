#include "passes/shape/bind_dims.h"

#include "libquant/model/text.h"
#include "passes/shape/dim_expr.h"
#include "passes/shape/dim_name.h"
#include "passes/shape/dynamic_causes.h"
#include "tests/catch.h"

namespace quant {
namespace {

constexpr char kTwoInputs[] = R"(<ir_version: 8, opset_import: ["": 17]>
g (float[batch,seq,4] x, float[batch,past] m) => (float[batch,seq,4] y, float[b2,p2] z) {
  [relu] y = Relu(x)
  [neg] z = Neg(m)
})";

Model Parsed(const char* text) {
  auto model = ParseModelText(text);
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  return *std::move(model);
}

ValueId Named(const Model& model, const std::string& name) {
  for (ValueId v = 0; v < model.graph.value_count(); ++v) {
    if (!model.graph.value(v).removed && model.graph.value(v).name == name) return v;
  }
  return kNoValue;
}

std::string ShapeText(const Model& model, const std::string& name) {
  const ValueId v = Named(model, name);
  if (v == kNoValue) return "no such value";
  const auto& shape = model.graph.value(v).shape;
  return shape ? ToString(*shape) : "unknown rank";
}

// The message of the error that a request is.
std::string Fault(const Model& model, const DimRequest& request) {
  Model copy = model;
  const auto bound = BindDims(copy, request);
  if (bound.ok()) return "";
  CHECK(ExitCode(bound.status()) == 2);
  CHECK(*PrintModelText(copy) == *PrintModelText(model));
  return Message(bound.status());
}

std::optional<int64_t> NumberOf(const std::string& part) {
  if (part == "past") return 32;
  if (part == "seq") return 1;
  if (part == "model.rows") return 6;
  return std::nullopt;
}

std::string Computed(const char* name) {
  const auto number = ComputeDimName(name, NumberOf);
  if (!number.ok()) return Message(number.status());
  return *number ? fmt::format("{}", **number) : std::string("none");
}

}  // namespace

TEST_CASE("names of dimensions that are arithmetic") {
  CHECK(Computed("past + seq") == "33");
  CHECK(Computed("past+1") == "33");
  CHECK(Computed("2*(past - seq)") == "62");
  CHECK(Computed("past - 2 - seq") == "29");
  CHECK(Computed("(past//5)") == "6");
  CHECK(Computed("(seq - 3)//2") == "-1");
  CHECK(Computed("model.rows / 3") == "2");
  CHECK(Computed("model.rows / 4") == "dimension 'model.rows / 4' divides 6 by 4, which leaves a rest");
  CHECK(Computed("past / (seq - 1)") == "dimension 'past / (seq - 1)' divides by zero");
  CHECK(Computed("past * 9223372036854775807") == "dimension 'past * 9223372036854775807' is too large a number");
  for (const char* name : {"past", "batch + seq", "past-seq", "a.b", "", "?", "1", "1 + 2", "past +", "(past",
                           "past seq", "floor(past/2)", "past + 9223372036854775808", "+", "past + seq)"}) {
    INFO(name);
    CHECK(Computed(name) == "none");
  }
  CHECK(Computed(std::string(100000, '(').c_str()) == "none");
  CHECK(PartsOfDimName("2*past + model.rows") == std::vector<std::string>{"past", "model.rows"});
  CHECK(PartsOfDimName("model.rows").empty());
}

TEST_CASE("polynomials over dimensions") {
  const DimExpr a = DimExpr::Symbol("a"), b = DimExpr::Symbol("b"), two = DimExpr::Number(2);
  const DimExpr ab = *DimExpr::Product(a, b), twice = *DimExpr::Product(ab, two);
  CHECK(ab == *DimExpr::Product(b, a));
  CHECK(*DimExpr::Quotient(twice, two) == ab);
  CHECK_FALSE(DimExpr::Quotient(*DimExpr::Sum(twice, a), two).has_value());
  CHECK_FALSE(DimExpr::Quotient(a, DimExpr::Number(0)).has_value());
  CHECK_FALSE(DimExpr::Quotient(a, b).has_value());
  CHECK(DimExpr::Difference(a, a)->number() == 0);
  CHECK(*DimExpr::Quotient(DimExpr::Number(-7), two) == DimExpr::Number(-3));
  CHECK(DimExpr::Sum(a, two)->AtLeast(2));
  CHECK_FALSE(DimExpr::Sum(a, two)->AtLeast(3));
  CHECK_FALSE(DimExpr::Difference(two, a)->AtLeast(0));
  const DimExpr large = DimExpr::Number(INT64_MAX);
  CHECK_FALSE(DimExpr::Product(large, two).has_value());
  CHECK_FALSE(DimExpr::Sum(large, two).has_value());
}

TEST_CASE("names get numbers everywhere") {
  Model model = Parsed(kTwoInputs);
  const auto bound = BindDims(model, {.dims = {{"batch", 2}, {"seq", 3}}, .inputs = {}, .values = {}});
  REQUIRE(bound.ok());
  CHECK(ShapeText(model, "x") == "2 x 3 x 4");
  CHECK(ShapeText(model, "m") == "2 x past");
  CHECK(ShapeText(model, "y") == "2 x 3 x 4");
  REQUIRE(bound->names.size() == 2);
  CHECK(bound->names[0].places == 3);
  KeepDeclared(model, *bound);
  CHECK(ShapeText(model, "z") == "2 x p2");  // inference knows the first, the file has a name for the second
  CHECK(CountStatic(model.graph).fixed == 2);
  CHECK(CountStatic(model.graph).all == 4);
}

TEST_CASE("the shape of an input gives its names their numbers") {
  Model model = Parsed(kTwoInputs);
  DimRequest request;
  request.inputs = {{"x", {5, std::nullopt, 4}}, {"m", {5, 7}}};
  REQUIRE(BindDims(model, request).ok());
  CHECK(ShapeText(model, "x") == "5 x seq x 4");
  CHECK(ShapeText(model, "z") == "5 x 7");
}

TEST_CASE("names with dots and arithmetic are names, and are computed from their parts") {
  Model model = Parsed(kTwoInputs);
  Shape& mask = *model.graph.value(Named(model, "m")).shape;
  mask[1].symbol = "past.len + seq";
  DimRequest request;
  request.dims = {{"batch", 1}, {"past.len + seq", 9}};
  Model whole = model;
  REQUIRE(BindDims(whole, request).ok());
  CHECK(ShapeText(whole, "m") == "1 x 9");
  request.dims = {{"past.len", 8}, {"seq", 1}};
  Model parts = model;
  const auto bound = BindDims(parts, request);
  REQUIRE(bound.ok());
  CHECK(ShapeText(parts, "m") == "batch x 9");
  CHECK(bound->names.back().name == "past.len + seq");
  request.dims.push_back({"past.len + seq", 10});
  CHECK(Fault(model, request) == "dimension 'past.len + seq' is 10 by --dim but 9 by its parts");
  mask[1].symbol = "past.len - seq";
  request.dims = {{"past.len", 1}, {"seq", 1}};
  CHECK(Fault(model, request) ==
        "dimension 'past.len - seq' comes out as 0: a dimension is 1 or more; --dim 'past.len - seq=0' "
        "allows this 0");
  request.dims.push_back({"past.len - seq", 0});
  CHECK(Fault(model, request).empty());
}

TEST_CASE("a dimension that is asked to be 0 is, and what is computed from it") {
  Model model = Parsed(kTwoInputs);
  (*model.graph.value(Named(model, "m")).shape)[1].symbol = "2*past.len";
  DimRequest request;
  request.dims = {{"batch", 1}, {"seq", 0}, {"past.len", 0}};
  REQUIRE(BindDims(model, request).ok());
  CHECK(ShapeText(model, "x") == "1 x 0 x 4");
  CHECK(ShapeText(model, "m") == "1 x 0");
}

TEST_CASE("requests that contradict the model or themselves") {
  const Model model = Parsed(kTwoInputs);
  const auto dims = [&](std::vector<DimRequest::Named> named) {
    return Fault(model, {.dims = std::move(named), .inputs = {}, .values = {}});
  };
  const auto inputs = [&](std::vector<DimRequest::Input> given) {
    return Fault(model, {.dims = {{"batch", 2}}, .inputs = std::move(given), .values = {}});
  };
  CHECK(dims({{"bacth", 1}}) == "there is no dimension 'bacth'; the model names batch, seq, past, b2, p2");
  CHECK(dims({{"batch", 0}}).empty());
  CHECK(dims({{"batch", -1}}) == "dimension 'batch' can't be -1: a dimension is 0 or more");
  CHECK(dims({{"batch", 1}, {"batch", 2}}) == "dimension 'batch' is given twice: 1 and 2");
  CHECK(dims({{"batch", 1}, {"batch", 1}}).empty());
  CHECK(dims({{"seq", int64_t{1} << 62}, {"batch", 1}}) == "input 'x' would be too large: 1x4611686018427387904x4");
  CHECK(inputs({{"q", {1}}}) == "there is no input 'q'; the model has x, m");
  CHECK(inputs({{"x", {2, 1}}}) == "input 'x' is batch x seq x 4, of 3 dimensions; 2 are given");
  CHECK(inputs({{"x", {2, 1, 5}}}) == "input 'x': dimension 2 is 4 and can't become 5");
  CHECK(inputs({{"x", {2, 0, 4}}}).empty());
  CHECK(inputs({{"x", {2, -1, 4}}}) == "input 'x': a dimension can't be -1: it is 0 or more");
  CHECK(inputs({{"x", {3, 1, 4}}}) == "dimension 'batch' is 2 by --dim but 3 by input 'x'");
  CHECK(inputs({{"x", {2, 1, 4}}, {"m", {4, 1}}}) == "dimension 'batch' is 2 by --dim but 4 by input 'm'");
  CHECK(inputs({{"x", {2, 1, 4}}, {"x", {2, 2, 4}}}) == "input 'x' is given twice, with different shapes");
}

TEST_CASE("a name ? stands for no name") {
  Model model = Parsed(kTwoInputs);
  for (const char* input : {"x", "m"}) {
    for (Dim& d : *model.graph.value(Named(model, input)).shape) {
      if (!d.known()) d = {-1, "?"};
    }
  }
  DimRequest request;
  request.inputs = {{"x", {1, 2, 4}}, {"m", {3, 5}}};
  const auto bound = BindDims(model, request);
  REQUIRE(bound.ok());
  CHECK(bound->unnamed == 4);
  CHECK(ShapeText(model, "y") == "1 x 2 x 4");
  CHECK(ShapeText(model, "z") == "3 x 5");
}

TEST_CASE("shapes left over from another run are forgotten") {
  Model model = Parsed(R"(<ir_version: 8, opset_import: ["": 17, "own": 1]>
g (float[batch,4] x) => (float[1,4] y, float[batch,7] q)
<float[1,4] a, float[batch,7] c> {
  a = Relu(x)
  y = Neg(a)
  c = own.Mystery(x)
  q = Abs(c)
})");
  const auto bound = BindDims(model, {.dims = {{"batch", 3}}, .inputs = {}, .values = {}});
  INFO(Message(bound.status()));
  REQUIRE(bound.ok());
  CHECK(ShapeText(model, "a") == "3 x 4");
  CHECK(ShapeText(model, "y") == "3 x 4");
  CHECK(ShapeText(model, "c") == "3 x 7");  // of an operator that nobody can infer, the file's word
  CHECK(ShapeText(model, "q") == "3 x 7");
}

TEST_CASE("bodies, functions and outputs that are inputs get numbers") {
  Model model = Parsed(R"(<ir_version: 10, opset_import: ["": 17, "own": 1]>
g (float[n,4] x, bool c) => (float[n,4] x, float[n,4] y) {
  y = If(c) <
    then_branch = t () => (float[n,4] p) { p = own.Twice(x) },
    else_branch = e () => (float[n,4] x) { unused = Neg(x) }
  >
}
<domain: "own", opset_import: ["": 17]>
Twice (a) => (b) {
  b = Add(a, a)
})");
  REQUIRE(BindDims(model, {.dims = {{"n", 3}}, .inputs = {}, .values = {}}).ok());
  CHECK(ShapeText(model, "p") == "3 x 4");
  CHECK(PrintModelText(model)->find("[n,") == std::string::npos);
}

TEST_CASE("an input of one element becomes a constant") {
  const Model model = Parsed(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[4] x, int64[one] k, bool f, float[4] thru) => (float[4] y, int64[1] z, bool b, float[4] thru) {
  y = Relu(x)
  z = Neg(k)
  b = Not(f)
})");
  Model fixed = model;
  DimRequest request;
  request.dims = {{"one", 1}};
  request.values = {{"k", "-7"}, {"f", "true"}};
  REQUIRE(BindDims(fixed, request).ok());
  CHECK(fixed.graph.main().inputs.size() == 2);
  const Value& k = fixed.graph.value(Named(fixed, "k"));
  REQUIRE(k.constant.has_value());
  CHECK(k.constant->dims() == Dims{1});
  CHECK(k.constant->data<int64_t>()[0] == -7);
  CHECK(Verify(fixed.graph).ok());
  const auto fault = [&](const char* name, const char* number) {
    DimRequest one;
    one.values = {{name, number}};
    return Fault(model, one);
  };
  CHECK(fault("x", "1") == "input 'x' is 4: only an input of one element can become a constant");
  CHECK(fault("k", "1") == "input 'k' is one: only an input of one element can become a constant");
  CHECK(fault("f", "maybe") == "input 'f' is bool and can't be 'maybe'");
  CHECK(fault("q", "1") == "there is no input 'q' to give a value");
  CHECK(fault("thru", "1") == "input 'thru' is an output too and can't become a constant");
}

TEST_CASE("what stays dynamic has a first cause") {
  Model model = Parsed(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[n,4] x, float[2,4] w, int64[2] sizes) => (float[n,4] y, int64[2,k] z, float[a,b] r, float[p,q] s)
<int64[1] first = {0}, int64[1] four = {4}> {
  [act] y = Relu(x)
  [nz] z = NonZero(w)
  [shape] r = Reshape(w, sizes)
  [of_x] d = Shape(x)
  [pick] e = Gather(d, first)
  [target] t = Concat<axis = 0>(e, four)
  [fill] f = ConstantOfShape(t)
  [half] s = Neg(f)
})");
  REQUIRE(BindDims(model, {}).ok());
  const DynamicReport report = FindDynamic(model.graph);
  const auto cause = [&](const char* output) {
    for (const DynamicDim& d : report.outputs) {
      if (model.graph.value(d.value).name == output) return d.cause;
    }
    return std::string("static");
  };
  CHECK(cause("y") == "dimension 0 (n) of input x");
  CHECK(cause("z") == "NonZero node 'nz'");
  CHECK(cause("r") == "the values of input sizes");
  CHECK(cause("s") == "dimension 0 (n) of input x");
  REQUIRE(BindDims(model, {.dims = {{"n", 3}}, .inputs = {}, .values = {}}).ok());
  CHECK(FindDynamic(model.graph).outputs.size() == 3);  // one of z, two of r
}

}  // namespace quant
