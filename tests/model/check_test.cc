#include "libquant/model/check.h"

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
    CHECK_FALSE(HasName(swapped[0]));
    CHECK_FALSE(HasName(swapped[1]));
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
  infer("g (int64[2] x, float[2] v) => (float[] y) <int64[0] d = {}> { y = OneHot(x, d, v) }");
  infer("g (float[4] x) => (seq(float[]) y) <int64 n = {0}> { y = SplitToSequence(x, n) }");
  infer("g (float[2] x) => (float[] y) { u = x.Unknown(x)  y = EyeLike<dtype = 1>(u) }");
  infer("g (float[2] a, float[2,3,4] b) => (float[] y) { y = Einsum<equation = \"i...,...->\">(a, b) }");
  infer("g (float a) => (float[] y) { y = Einsum<equation = \"->i\">(a) }");
  infer(R"(g (float[1,2,8] q) => (float[] y) { y = Attention<q_num_heads = 2, kv_num_heads = 0>(q, q, q) })");
}

}  // namespace
}  // namespace quant
