// Placement of quantizers: what runs in integers, what shares parameters, which Relu goes, and biases that would
// overflow.
#include "passes/quant/static_quant.h"

#include <algorithm>

#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "tests/catch.h"

namespace quant {
namespace {

QuantizeOptions OptionsFor(const std::string& target, const std::string& activations) {
  QuantizeOptions options;
  REQUIRE(SetQuantizeOption(options, "target", target).ok());
  REQUIRE(SetQuantizeOption(options, "activations", activations).ok());
  REQUIRE(CompleteOptions(options).ok());
  return options;
}

struct Quantized {
  Model model;
  QuantizePlan weights;
  IntegerPlan integers;
  PlacedQuantizers placed;
  std::vector<std::string> ops;  // of the main graph, in order

  int64_t Count(const std::string& op) const { return std::count(ops.begin(), ops.end(), op); }
};

// All values range over [-2, 2] unless told.
StatusOr<Quantized> QuantizeText(const std::string& graph, const QuantizeOptions& options, ValueRanges ranges = {},
                                 bool fill = true) {
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 21]>\n" + graph);
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  Quantized out;
  out.model = std::move(*model);
  RETURN_IF_ERROR(PrepareForIntegers(out.model, options, false));
  ASSIGN_OR_RETURN(out.weights, PlanWeights(out.model, options));
  ASSIGN_OR_RETURN(out.integers, PlanIntegers(out.model, out.weights, options));
  for (const RangeWanted& w : RangesWanted(out.model, out.integers)) {
    if (fill) ranges.emplace(w.name, ValueRange{-2, 2, {}});
  }
  ASSIGN_OR_RETURN(out.placed, ApplyIntegers(out.model, options, out.weights, out.integers, ranges));
  REQUIRE(InferShapes(out.model).ok());
  for (const NodeId id : out.model.graph.main().nodes) out.ops.push_back(out.model.graph.node(id).op_type);
  return out;
}

const char* const kTwoConvs = R"(g (float[1,1,8,8] x) => (float[1,1,8,8] z)
  <float[1,1,1,1] w = {0.5}, float[1] b = {0.25}> { c = Conv(x, w, b)  y = Relu(c)  z = Conv(y, w, b) })";

TEST_CASE("a Relu goes only where its quantizer saturates where it does") {
  const QuantizeOptions options = OptionsFor("onnxruntime-cpu", "uint8");
  const auto gone = QuantizeText(kTwoConvs, options, {{"y", {0, 3, {}}}});
  REQUIRE(gone.ok());
  CHECK(gone->Count("Relu") == 0);
  CHECK(gone->placed.absorbed == 1);
  // A range below 0 behind a Relu, as a careless file may say: then bounding is not redundant.
  const auto stays = QuantizeText(kTwoConvs, options, {{"y", {-1, 3, {}}}});
  REQUIRE(stays.ok());
  CHECK(stays->Count("Relu") == 1);
  // Zero points of 0 in signed codes never make it so.
  const auto symmetric = QuantizeText(kTwoConvs, OptionsFor("tensorrt", "int8"), {{"y", {0, 3, {}}}});
  REQUIRE(symmetric.ok());
  CHECK(symmetric->Count("Relu") == 1);
  // Nor do they where the target's converter drops quantizers.
  const auto remark = QuantizeText(kTwoConvs, OptionsFor("tflite", "int8"), {{"y", {0, 3, {}}}});
  REQUIRE(remark.ok());
  CHECK(remark->Count("Relu") == 1);
}

TEST_CASE("a Clip goes where the range ends within its bounds") {
  const std::string graph = R"(g (float[1,1,8,8] x) => (float[1,1,8,8] z)
    <float[1,1,1,1] w = {0.5}, float low = {0.0}, float high = {6.0}> { c = Conv(x, w)  y = Clip(c, low, high)  z = Conv(y, w) })";
  const QuantizeOptions options = OptionsFor("onnxruntime-cpu", "uint8");
  for (const float most : {6.0F, 5.0F, 0.1F}) {
    const auto gone = QuantizeText(graph, options, {{"y", {0, most, {}}}});
    REQUIRE(gone.ok());
    CHECK(gone->Count("Clip") == 0);
  }
  const auto stays = QuantizeText(graph, options, {{"y", {0, 7, {}}}});
  REQUIRE(stays.ok());
  CHECK(stays->Count("Clip") == 1);
}

TEST_CASE("a Clip that the target runs in integers is absorbed or a node of its own, its bounds stay numbers") {
  const QuantizeOptions options = OptionsFor("qnn", "uint8");
  const auto absorbed = QuantizeText(R"(g (float[1,1,4,4] x) => (float[1,1,4,4] z)
    <float[1,1,1,1] w = {0.5}, float low = {0.0}, float high = {6.0}>
    { c = Conv(x, w)  m = Mul(c, c)  y = Clip(m, low, high)  z = Conv(y, w) })",
                                     options, {{"y", {0, 6, {}}}});
  REQUIRE(absorbed.ok());
  CHECK(absorbed->Count("Clip") == 0);
  const auto alone = QuantizeText(R"(g (float[1,1,4,4] x) => (float[1,1,4,4] z, float[1,1,4,4] m)
    <float[1,1,1,1] w = {0.5}, float low = {0.0}, float high = {6.0}>
    { m = Conv(x, w)  y = Clip(m, low, high)  z = Conv(y, w) })",
                                  options, {{"y", {0, 6, {}}}});
  REQUIRE(alone.ok());
  CHECK(alone->Count("Clip") == 1);
  CHECK(alone->Count("QuantizeLinear") == 4);
  CHECK(alone->Count("DequantizeLinear") == 5);  // the weight's among them
}

TEST_CASE("a missing range is named before anything is rewritten") {
  const auto result = QuantizeText(kTwoConvs, OptionsFor("onnxruntime-cpu", "uint8"), {{"x", {-1, 1, {}}}}, false);
  CHECK(ExitCode(result.status()) == 3);
  CHECK(Message(result.status()).find("2 of 3 values to be quantized have no range: y, z") != std::string::npos);
}

TEST_CASE("a bias that would not fit into int32 widens its channel's weights") {
  const std::string graph = R"(g (float[1,1,4,4] x) => (float[1,2,4,4] z)
    <float[2,1,1,1] w = {0.5, 1e-30}, float[2] b = {0.25, 100.0}> { z = Conv(x, w, b) })";
  for (const char* target : {"onnxruntime-cpu", "onnxruntime-vnni", "qnn"}) {
    const auto q = QuantizeText(graph, OptionsFor(target, "uint8"), {{"z", {-2, 102, {}}}});
    REQUIRE(q.ok());
    CHECK(q->placed.notes.size() == 1);
    const auto session = Session::Create(q->model);
    REQUIRE(session.ok());
    const Tensor x = Tensor::Of<float>({1, 1, 4, 4}, std::vector<float>(16, 1.0F));
    const auto out = (*session)->Run({{"x", x}});
    REQUIRE(out.ok());
    const auto z = out->front().second.data<float>();
    CHECK(std::abs(z[0] - 0.75F) < 0.5F);
    CHECK(std::abs(z[16] - 100.0F) < 0.5F);
  }
}

TEST_CASE("biases of one element, one for all, and none") {
  for (
      const char* graph :
      {R"(g (float[1,2,4,4] x) => (float[1,1,4,4] z) <float[1,2,1,1] w = {0.5, 1.0}, float[1] b = {0.25}>
           { z = Conv(x, w, b) })",
       R"(g (float[3,2] x) => (float[3,1] z) <float[2,1] w = {0.5, 1.0}, float b = {0.25}> { z = Gemm(x, w, b) })",
       R"(g (float[3,2] x) => (float[3,2] z) <float[2,2] w = {0.5, 1.0, 2.0, 3.0}, float[1] b = {0.25}> { z = Gemm(x, w, b) })",
       R"(g (float[3,2] x) => (float[3,2] z) <float[2,2] w = {0.5, 1.0, 2.0, 3.0}> { z = Gemm(x, w) })"}) {
    INFO(graph);
    const auto q = QuantizeText(graph, OptionsFor("portable", "uint8"));
    REQUIRE(q.ok());
    CHECK(q->Count("QuantizeLinear") == 2);
    CHECK(Session::Create(q->model).ok());
  }
}

TEST_CASE("what is only moved has the parameters of what it is") {
  const auto q = QuantizeText(R"(g (float[1,1,8,8] x) => (float[1,1,4,4] z)
    <float[1,1,1,1] w = {0.5}> { c = Conv(x, w)  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)  z = Conv(p, w) })",
                              OptionsFor("onnxruntime-cpu", "uint8"), {{"c", {-1, 4, {}}}, {"p", {-0.5F, 2.5F, {}}}});
  REQUIRE(q.ok());
  const Graph& graph = q->model.graph;
  std::vector<float> scales;
  for (const NodeId id : graph.main().nodes) {
    const Node& node = graph.node(id);
    if (node.op_type == "QuantizeLinear") scales.push_back(graph.value(node.inputs[1]).constant->data<float>()[0]);
  }
  CHECK(std::count(scales.begin(), scales.end(), 5.0F / 255) == 2);
}

TEST_CASE("Softmax and decomposed norms stay float, and so does what no product needs") {
  const auto q = QuantizeText(R"(g (float[2,4] x, float[2,4] skip) => (float[2,4] z)
    <float[4,4] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0}>
    { m = MatMul(x, w)  a = Add(m, skip)  s = Softmax(a)  z = MatMul(s, w) })",
                              OptionsFor("onnxruntime-cpu", "uint8"));
  REQUIRE(q.ok());
  CHECK(q->Count("QuantizeLinear") == 2);  // what the two products read
  for (const IntegerNode& n : q->integers.nodes) CHECK(q->model.graph.node(n.node).op_type == "MatMul");
}

// All confidences 0: what one scale for boxes and confidences gives.
TEST_CASE("a detector's tail stays float behind its last products") {
  const std::string graph = R"(g (float[1,1,2,2] x) => (float[1,8] z)
    <float[1,1,1,1] w = {600.0}, float[1,1,1,1] v = {1.0}, int64[2] to = {1, 8}>
    { c = Conv(x, w)  d = Conv(x, v)  s = Sigmoid(d)  k = Concat<axis = 1>(c, s)  z = Reshape(k, to) })";
  for (const char* target : {"onnxruntime-cpu", "qnn", "portable"}) {
    INFO(target);
    const auto q = QuantizeText(graph, OptionsFor(target, "uint8"),
                                {{"x", {-1, 1, {}}},
                                 {"c", {-600, 600, {}}},
                                 {"d", {-1, 1, {}}},
                                 {"s", {0, 1, {}}},
                                 {"k", {-600, 600, {}}},
                                 {"z", {-600, 600, {}}}});
    REQUIRE(q.ok());
    CHECK(q->integers.nodes.size() == 2);
    const auto session = Session::Create(q->model);
    REQUIRE(session.ok());
    const auto out = (*session)->Run({{"x", Tensor::Of<float>({1, 1, 2, 2}, std::vector<float>{-1, 0, 0.5F, 1})}});
    REQUIRE(out.ok());
    const auto z = out->front().second.data<float>();
    CHECK(std::abs(z[0] + 600) < 6);
    CHECK(std::abs(z[4] - 0.2689F) < 0.01F);
    CHECK(std::abs(z[7] - 0.7311F) < 0.01F);
  }
}

TEST_CASE("a Concat of unlike ranges before a product is told") {
  const std::string graph = R"(g (float[1,1,2,2] x) => (float[1,1,2,2] z)
    <float[1,1,1,1] w = {600.0}, float[1,1,1,1] v = {1.0}, float[1,2,1,1] u = {0.001, 1.0}>
    { c = Conv(x, w)  s = Conv(x, v)  k = Concat<axis = 1>(c, s)  z = Conv(k, u) })";
  const ValueRanges ranges = {{"c", {-600, 600, {}}}, {"s", {-1, 1, {}}}, {"k", {-600, 600, {}}}};
  const auto q = QuantizeText(graph, OptionsFor("onnxruntime-cpu", "uint8"), ranges);
  REQUIRE(q.ok());
  REQUIRE(q->placed.notes.size() == 1);
  CHECK(q->placed.notes[0].text.find("its output ranges over 1.2e+03, s over 2 alone: 0 of 255 codes") == 0);
  const auto alike = QuantizeText(graph, OptionsFor("onnxruntime-cpu", "uint8"), {});
  REQUIRE(alike.ok());
  CHECK(alike->placed.notes.empty());
}

TEST_CASE("inputs and outputs become codes when asked for") {
  QuantizeOptions options = OptionsFor("onnxruntime-cpu", "uint8");
  options.integer_io = true;
  const auto q = QuantizeText(kTwoConvs, options, {{"y", {0, 3, {}}}});
  REQUIRE(q.ok());
  const Graph& graph = q->model.graph;
  CHECK(graph.value(graph.main().inputs[0]).name == "x");
  CHECK(graph.value(graph.main().inputs[0]).dtype == DType::kUint8);
  CHECK(graph.value(graph.main().outputs[0]).name == "z");
  CHECK(graph.value(graph.main().outputs[0]).dtype == DType::kUint8);
  CHECK(q->placed.ports.size() == 2);
}

StatusOr<Quantized> QuantizeDynamically(const std::string& graph, QuantizeOptions options) {
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 17]>\n" + graph);
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  Quantized out;
  out.model = std::move(*model);
  ASSIGN_OR_RETURN(out.weights, PlanWeights(out.model, options));
  RETURN_IF_ERROR(ApplyPlan(out.model, options, out.weights));
  REQUIRE(InferShapes(out.model).ok());
  for (const NodeId id : out.model.graph.main().nodes) out.ops.push_back(out.model.graph.node(id).op_type);
  return out;
}

TEST_CASE("dynamic codes are made once for all readers of a value") {
  const std::string graph = R"(g (float[2,2] x) => (float[2,3] y, float[2,3] z)
    <float[2,3] w = {1.0,2.0,3.0,4.0,5.0,6.0}, float[3,2] v = {1.0,2.0,3.0,4.0,5.0,6.0}, float[3] c = {10.0,20.0,30.0}>
    { y = MatMul(x, w)  z = Gemm<transB = 1>(x, v, c) })";
  for (const char* target : {"onnxruntime-cpu", "onnxruntime-vnni"}) {
    const auto q = QuantizeDynamically(graph, OptionsFor(target, "dynamic"));
    REQUIRE(q.ok());
    CHECK(q->Count("DynamicQuantizeLinear") == 1);
    CHECK(q->Count("MatMulInteger") == 2);
    const auto session = Session::Create(q->model);
    REQUIRE(session.ok());
    const auto out = (*session)->Run({{"x", Tensor::Of<float>({2, 2}, std::vector<float>{1, 0.5F, -1, 2})}});
    REQUIRE(out.ok());
    CHECK(std::abs(out->at(0).second.data<float>()[0] - 3) < 0.1F);
    CHECK(std::abs(out->at(1).second.data<float>()[5] - (30 - 5 + 12)) < 0.3F);
  }
}

TEST_CASE("what has no dynamic integer form says so, and a Conv is asked for") {
  const std::string graph = R"(g (float[1,1,4,4] x, int64[2] i) => (float[1,2,4,4] y, float[2,2] r)
    <float[2,1,1,1] w = {0.5, 1.0}, float[2] b = {0.25, 100.0}, float[3,2] t = {1.0,2.0,3.0,4.0,5.0,6.0}>
    { y = Conv(x, w, b)  r = Gather(t, i) })";
  QuantizeOptions options = OptionsFor("onnxruntime-cpu", "dynamic");
  const auto none = QuantizeDynamically(graph, options);
  REQUIRE(none.ok());
  for (const WeightVerdict& v : none->weights.verdicts) {
    CHECK(v.kind == VerdictKind::kUnsupported);
    CHECK_FALSE(v.reason.empty());
  }
  options.include_op = {"Conv"};
  const auto conv = QuantizeDynamically(graph, options);
  REQUIRE(conv.ok());
  CHECK(conv->Count("ConvInteger") == 1);
  const auto session = Session::Create(conv->model);
  REQUIRE(session.ok());
  const Tensor x = Tensor::Of<float>({1, 1, 4, 4}, std::vector<float>(16, 1.0F));
  const auto out = (*session)->Run({{"x", x}, {"i", Tensor::Of<int64_t>({2}, std::vector<int64_t>{0, 2})}});
  REQUIRE(out.ok());
  CHECK(std::abs(out->at(0).second.data<float>()[0] - 0.75F) < 0.01F);
  CHECK(std::abs(out->at(0).second.data<float>()[16] - 101.0F) < 0.01F);
}

TEST_CASE("a ConvTranspose in groups keeps its answers") {
  const std::string graph = R"(g (float[1,2,3,3] x) => (float[1,4,6,6] z)
    <float[2,2,2,2] w = {0.1,0.2,0.3,0.4,-0.5,0.6,0.7,-0.8,9.0,1.0,-1.1,1.2,1.3,-1.4,1.5,1.6}, float[4] b = {0.5,-0.5,1.0,2.0}>
    { z = ConvTranspose<group = 2, strides = [2, 2]>(x, w, b) })";
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 21]>\n" + graph);
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  std::vector<float> values(18);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) / 3 - 1;
  const Tensor x = Tensor::Of<float>({1, 2, 3, 3}, values);
  const auto exact = Session::Create(*model);
  REQUIRE(exact.ok());
  const auto expected = (*exact)->Run({{"x", x}});
  REQUIRE(expected.ok());
  for (const char* target : {"portable", "qnn"}) {
    const auto q = QuantizeText(graph, OptionsFor(target, "uint8"), {{"x", {-1, 1, {}}}, {"z", {-12, 14, {}}}});
    REQUIRE(q.ok());
    CHECK(q->integers.nodes.size() == 1);
    const auto session = Session::Create(q->model);
    REQUIRE(session.ok());
    const auto out = (*session)->Run({{"x", x}});
    REQUIRE(out.ok());
    const auto got = out->front().second.data<float>(), want = expected->front().second.data<float>();
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 0.15F);
  }
}

TEST_CASE("signed activations have signed weights") {
  CHECK(OptionsFor("onnxruntime-cpu", "int8").format.weights == "int8");
  CHECK(OptionsFor("onnxruntime-cpu", "uint8").format.weights == "uint8");
  QuantizeOptions mixed;
  REQUIRE(SetQuantizeOption(mixed, "target", "onnxruntime-cpu").ok());
  REQUIRE(SetQuantizeOption(mixed, "activations", "int8").ok());
  REQUIRE(SetQuantizeOption(mixed, "weights", "uint8").ok());
  CHECK(ExitCode(CompleteOptions(mixed)) == 2);
}

TEST_CASE("what nobody reads is in nobody's way") {
  const auto q = QuantizeText(R"(g (float[1,1,8,8] x) => (float[1,1,8,8] z)
    <float[1,1,1,1] w = {0.5}> { d = Conv(x, w)  e = Sigmoid(d)  f = Add(x, x)  z = Conv(x, w) })",
                              OptionsFor("onnxruntime-cpu", "uint8"));
  REQUIRE(q.ok());
  CHECK(q->Count("Conv") == 1);
  CHECK(q->integers.nodes.size() == 1);
}

TEST_CASE("options that do not go together are said") {
  QuantizeOptions options;
  REQUIRE(SetQuantizeOption(options, "activations", "uint8").ok());
  REQUIRE(SetQuantizeOption(options, "weights", "int4").ok());
  CHECK(ExitCode(CompleteOptions(options)) == 2);
  QuantizeOptions grouped;
  REQUIRE(SetQuantizeOption(grouped, "activations", "uint8").ok());
  REQUIRE(SetQuantizeOption(grouped, "group-size", "32").ok());
  CHECK(ExitCode(CompleteOptions(grouped)) == 2);
  QuantizeOptions io;
  REQUIRE(SetQuantizeOption(io, "io", "integer").ok());
  CHECK(ExitCode(CompleteOptions(io)) == 2);
}

}  // namespace
}  // namespace quant
