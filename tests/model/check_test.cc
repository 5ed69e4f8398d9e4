#include "libquant/model/check.h"
#include "libquant/model/dim_names.h"

#include <fmt/format.h>

#include "tests/catch.h"
#include "tests/model/parse_model.h"

namespace quant {
namespace {

const Value& Named(const Model& model, const std::string& name) {
  for (ValueId v = 0; v < model.graph.value_count(); ++v) {
    if (model.graph.value(v).name == name) return model.graph.value(v);
  }
  FAIL("no value " << name);
  return model.graph.value(0);
}

TEST_CASE("an input that is an output too keeps the dims it has as an input") {
  auto model = ParseModelText(
      "<ir_version: 8, opset_import: [\"\": 17]>\n"
      "g (float[b,64] x) => (float[b,c] x, float[b,64] y) { y = Neg(x) }");
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  const auto& shape = model->graph.value(model->graph.main().inputs[0]).shape;
  REQUIRE(shape.has_value());
  CHECK((*shape)[1].value == 64);
}

TEST_CASE("an output without a shape is no fault") {
  Model model = Parse("<ir_version: 8, opset_import: [\"\": 17]>\ng (float[N,4] x) => (float y) { y = Relu(x) }");
  for (ValueId v : model.graph.main().outputs) model.graph.value(v).shape.reset();
  CHECK(CheckModel(model).ok());
  REQUIRE(InferShapes(model).ok());
  CHECK(ToString(*Named(model, "y").shape) == "N x 4");
}

TEST_CASE("a computed target of Reshape names dimensions at any opset, where 0 copies the same one") {
  for (const int opset : {7, 12, 13, 14, 21}) {
    CAPTURE(opset);
    Model model = Parse(fmt::format(
        "<ir_version: 8, opset_import: [\"\": {}]>\n"
        "g (float[batch,seq,8] x) => (float[p,q,r,o] y, float[k,l,m] z) <int64[1] i0 = {{0}}, int64[1] i1 = {{1}}, "
        "int64[1] two = {{2}}, int64[1] four = {{4}}, int64[1] eight = {{8}}> {{\n"
        "  s = Shape(x) b = Gather<axis = 0>(s, i0) q = Gather<axis = 0>(s, i1)\n"
        "  t = Concat<axis = 0>(b, q, two, four) y_ = Reshape(x, t) y = Relu(y_)\n"
        "  u = Concat<axis = 0>(q, b, eight) z_ = Reshape(x, u) z = Relu(z_) }}",
        opset));
    REQUIRE(InferShapes(model).ok());
    CHECK(ToString(*Named(model, "y_").shape) == "batch x seq x 2 x 4");
    const Shape& swapped = *Named(model, "z_").shape;
    CHECK_FALSE(HasMeaningfulName(swapped[0]));
    CHECK_FALSE(HasMeaningfulName(swapped[1]));
    CHECK(swapped[2].value == 8);
    CHECK(ToString(*Named(model, "z").shape) == "k x l x 8");
  }
}

TEST_CASE("a wrong attribute is") {
  Model model =
      Parse("<ir_version: 8, opset_import: [\"\": 17]>\ng (float[4] x) => (float[4] y) { y = Relu<axis = 1>(x) }");
  const Status status = CheckModel(model);
  CHECK(ExitCode(status) == 3);
  CHECK(Message(status).find("axis") != std::string::npos);
}

TEST_CASE("operators of com.microsoft are checked and inferred like any other") {
  const std::string head =
      "<ir_version: 8, opset_import: [\"\": 17, \"com.microsoft\": 1]>\ng (float[N,32] x, uint8[8,1,16] b, float[8,1] "
      "s) => (float[N,8] y) { ";
  Model model = Parse(head + "t = com.microsoft.MatMulNBits<K = 32, N = 8, block_size = 32>(x, b, s) y = Relu(t) }");
  CHECK(CheckModel(model).ok());
  REQUIRE(InferShapes(model).ok());
  CHECK(ToString(*Named(model, "t").shape) == "N x 8");
  CHECK(ExitCode(CheckModel(Parse(head + "t = com.microsoft.MatMulNBits<K = 32>(x, b, s) y = Relu(t) }"))) == 3);
}

TEST_CASE("shapes go through shape arithmetic and around what is unknown") {
  Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17, "odd": 1]>
g (float[2,3,4] x) => (float[a,b] y, float[c] z) {
  s = Shape(x)
  i = Constant<value = int64 {0}>()
  n = Gather(s, i)
  u = Constant<value = int64[1] {0}>()
  n1 = Unsqueeze(n, u)
  rest = Constant<value = int64[1] {-1}>()
  shape = Concat<axis = 0>(n1, rest)
  r = Reshape(x, shape)
  y = Relu(r)
  o = odd.Strange(x)
  z = Relu(o)
})");
  CHECK(CheckModel(model).ok());
  REQUIRE(InferShapes(model).ok());
  CHECK(ToString(*Named(model, "r").shape) == "2 x 12");
}

TEST_CASE("a wrong shape in the file does not stop inference") {
  Model model = Parse(
      "<ir_version: 8, opset_import: [\"\": 17]>\ng (float[2,3] x) => (float[7,7] y) { t = Relu(x) y = Relu(t) }");
  CHECK(InferShapes(model).ok());
  CHECK(ToString(*Named(model, "t").shape) == "2 x 3");
}

TEST_CASE("attributes that ONNX's inference divides by, or indexes with") {
  const auto infer = [](const std::string& graph) {
    Model model = Parse("<ir_version: 10, opset_import: [\"\": 23, \"x\": 1]>\n" + graph);
    const Status status = InferShapes(model);
    CHECK((status.ok() || ExitCode(status) == 3));
  };
  infer("g (float[1,4,2,2] x) => (float[] y) { y = DepthToSpace<blocksize = 4294967296>(x) }");
  infer("g (float[1,4,2,2] x) => (float[] y) { y = SpaceToDepth<blocksize = 4294967296>(x) }");
  infer("g (float[2,2] x, int64[1,1] i) => (float[] y) { y = GatherND<batch_dims = -3>(x, i) }");
  infer("g (float[2,2] x, float[2] s) => (float[] y, float[] m) { y, m = LayerNormalization<axis = -9>(x, s) }");
  infer("g (float[2,2] x, float[2] s) => (float[] y, float[] m) { y, m = LayerNormalization<axis = 9>(x, s) }");
  // MaxPool of a window larger than its input: a dim of -6.
  infer(R"(g (float[2,2] x, float[1,1,2,2] i) => (float[] y) {
    p = MaxPool<kernel_shape = [9, 9]>(i)  c = Cast<to = 7>(p)  y = GatherND(x, c) })");
  infer("g (int64[2] x, float[2] v) => (float[] y) <int64[0] d = {}> { y = OneHot(x, d, v) }");
  infer("g (float[4] x) => (seq(float[]) y) <int64 n = {0}> { y = SplitToSequence(x, n) }");
  infer("g (float[2] x) => (float[] y) { u = x.Unknown(x)  y = EyeLike<dtype = 1>(u) }");
  infer("g (float[2] a, float[2,3,4] b) => (float[] y) { y = Einsum<equation = \"i...,...->\">(a, b) }");
  infer("g (float a) => (float[] y) { y = Einsum<equation = \"->i\">(a) }");
  infer(R"(g (float[1,2,8] q) => (float[] y) { y = Attention<q_num_heads = 2, kv_num_heads = 0>(q, q, q) })");
  infer("g (float[9] x) => (float[] y, float[] z, float[] w) { y, z, w = Split<num_outputs = 1>(x) }");
  infer("g (float[9] x) => (float[] y) { y = Split<num_outputs = 9223372036854775807>(x) }");
}

// As time and memory that a length costs are what is wrong, an hour or a killed process is how these fail.
TEST_CASE("a length that a tensor is said to have costs no memory") {
  const auto infer = [](const std::string& graph, int64_t opset = 23) {
    Model model = Parse(fmt::format("<ir_version: 10, opset_import: [\"\": {}]>\n{}", opset, graph));
    const Status status = InferShapes(model);
    CHECK((status.ok() || ExitCode(status) == 3));
    return model;
  };
  SECTION("of a shape") {
    const std::string inputs = "g (float[1] x, int64[3037000500] s, int64[2] t) => (float[] y) ";
    infer(inputs + "{ y = Reshape(x, s) }");
    infer(inputs + "{ y = Reshape(x, s) }", 13);
    infer(inputs + "{ y = Expand(x, s) }");
    infer(inputs + "{ y = Expand(x, s) }", 12);
    infer(inputs + "{ y = ConstantOfShape(s) }");
    infer(inputs + "{ y = ConstantOfShape(s) }", 9);
    infer(inputs + "{ y = Resize(x, , , s) }");
    infer(inputs + "{ y = Resize(x, , , s) }", 13);
    infer(inputs + "{ y = AffineGrid(x, s) }");
    infer("g (float[1,4,4] x, int64[3037000500] s, int64[2] t) => (float[] y) { y = Col2Im(x, s, t) }");
    infer("g (float[1,4,4] x, int64[3037000500] s, int64[2] t) => (float[] y) { y = Col2Im(x, t, s) }");
    infer("g (float[2] x, int64[2] s) => (float[] y) { l = Tile(s, s) y = Reshape(x, l) }");
  }
  SECTION("of values that are followed") {
    const std::string inputs =
        "g (int64[3037000500] s, int64 i) => (int64[] y) <int64[1] z = {0}, int64[1] one = {1}> ";
    for (const std::string op : {"Add(s, one)", "Sub(one, s)", "Mul(s, s)", "Cast<to = 6>(s)", "Gather(s, z)",
                                 "Concat<axis = 0>(s, one)", "Slice(s, z, one)", "Unsqueeze(s, z)", "Size(s)"}) {
      INFO(op);
      infer(fmt::format("{}{{ y = {} }}", inputs, op));
      infer(fmt::format("{}{{ y = {} }}", inputs, op), 14);
    }
    const Model model = infer(inputs + "{ y = Add(s, one) }");
    CHECK(ToString(*Named(model, "y").shape) == "3037000500");
  }
  SECTION("in a body") {
    infer(R"(g (int64[1] a) => (int64[] y) <int64 n = {3}, bool t = {1}> {
      y = Loop (n, t, a) <body = b (int64 i, bool c, int64[3000000000] s) => (bool d, int64[3000000000] r) {
        d = Identity(c)
        r = Add(s, s)
      }>
    })");
  }
  SECTION("pieced together") {
    std::string nodes, s = "s";
    for (int i = 0; i < 40; ++i) {
      nodes += fmt::format("s{} = Concat<axis = 0>({}, {}) ", i, s, s);
      s = fmt::format("s{}", i);
    }
    infer(fmt::format("g (int64[2] s) => (int64[] y) {{ {} y = Identity({}) }}", nodes, s));
  }
  SECTION("a step that an int does not hold") {
    for (const int64_t step : {int64_t{1} << 32, -(int64_t{1} << 32), (int64_t{1} << 31) + 1}) {
      infer(
          fmt::format("g (int64[4] x) => (int64[] y) <int64[1] a = {{0}}, int64[1] b = {{4}}, int64[1] k = {{{}}}> "
                      "{{ y = Slice(x, a, b, a, k) }}",
                      step));
    }
  }
}

}  // namespace
}  // namespace quant
