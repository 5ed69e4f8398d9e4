#include "libquant/exec/session.h"

#include <atomic>

#include "libquant/base/parallel.h"
#include "tests/catch.h"
#include "tests/exec/small_model.h"

namespace quant {
namespace {

const Dim kBatch{-1, "batch"};

std::string ErrorOf(const Status& status) { return Message(status); }

// x[batch x 2] -> relu(x W + b) -> y, and Identity(x) -> seen
struct TwoLayers : SmallModel {
  TwoLayers() {
    const ValueId x = Input("x", {kBatch, {2, {}}});
    const ValueId w = Constant("w", Floats({2, 3}, {1, -2, 3, 4, -5, 6}));
    const ValueId b = Constant("b", Floats({3}, {0.5f, 0.25f, -100}));
    const ValueId product = Op("MatMul", {x, w}, "product");
    Output(Op("Relu", {Op("Add", {product, b}, "sum")}, "y"));
  }
};

std::unique_ptr<Session> MustCreate(const Model& model, SessionOptions options = {}) {
  auto session = Session::Create(model, options);
  INFO(session.status());
  REQUIRE(session.ok());
  return std::move(session).value();
}

NamedTensors MustRun(Session& session, const NamedTensors& feeds, const RunHooks::Probe& probe = nullptr) {
  auto out = session.Run(feeds, {.probe = probe});
  INFO(out.status());
  REQUIRE(out.ok());
  return std::move(out).value();
}

TEST_CASE("a session runs a graph and names its outputs") {
  TwoLayers m;
  auto session = MustCreate(m.model);
  const auto out = MustRun(*session, {{"x", Floats({2, 2}, {1, 1, 0, 2})}});
  REQUIRE(out.size() == 1);
  CHECK(out[0].first == "y");
  CHECK(out[0].second.dims() == Dims{2, 3});
  CHECK(FloatsOf(out[0].second) == std::vector<float>{5.5f, 0, 0, 8.5f, 0, 0});
}

TEST_CASE("a run does not disturb the answers of an earlier one") {
  TwoLayers m;
  auto session = MustCreate(m.model);
  const auto first = MustRun(*session, {{"x", Floats({1, 2}, {1, 1})}});
  const auto second = MustRun(*session, {{"x", Floats({1, 2}, {2, 2})}});
  CHECK(FloatsOf(first[0].second) == std::vector<float>{5.5f, 0, 0});
  CHECK(FloatsOf(second[0].second) == std::vector<float>{10.5f, 0, 0});
}

TEST_CASE("the probe sees each value as it is made, and can stop the run") {
  TwoLayers m;
  auto session = MustCreate(m.model);
  std::vector<std::string> seen;
  MustRun(*session, {{"x", Floats({1, 2}, {1, 1})}}, [&](const std::string& name, const Tensor& t) {
    seen.push_back(name + " " + Describe(t));
    return OkStatus();
  });
  CHECK(seen == std::vector<std::string>{"product float32[1x3]", "sum float32[1x3]", "y float32[1x3]"});
  int calls = 0;
  const auto stop_at_second = [&](const std::string&, const Tensor&) {
    return ++calls == 2 ? DataError("enough") : OkStatus();
  };
  const auto stopped = session->Run({{"x", Floats({1, 2}, {1, 1})}}, {.probe = stop_at_second});
  CHECK(ErrorOf(stopped.status()) == "enough");
  CHECK(calls == 2);
}

TEST_CASE("the probe sees only chosen values, and what follows in one go has the bytes of single steps") {
  SmallModel m;
  const ValueId x = m.Input("x", {kBatch, {40, {}}});
  Tensor weight = Tensor::Allocate(DType::kFloat, {40, 50});
  for (int i = 0; i < 2000; ++i)
    weight.mutable_data<float>()[static_cast<size_t>(i)] = 0.01f * static_cast<float>(i % 97 - 48);
  const ValueId product = m.Op("MatMul", {x, m.Constant("w", weight)}, "product");
  const ValueId bias = m.Constant("b", Floats({1}, {0.3f}));
  const ValueId sum = m.Op("Add", {bias, product}, "sum");
  const ValueId rest = m.Op("Sub", {bias, sum}, "rest");
  m.Output(m.Op("Tanh", {rest}, "y"));
  auto session = MustCreate(m.model);
  Tensor input = Tensor::Allocate(DType::kFloat, {20, 40});
  for (int i = 0; i < 800; ++i)
    input.mutable_data<float>()[static_cast<size_t>(i)] = 0.05f * static_cast<float>(i % 31 - 15);
  const NamedTensors feeds = {{"x", input}};
  std::vector<std::string> seen;
  size_t ran = 0;
  RunHooks hooks;
  hooks.probe = [&](const std::string& name, const Tensor&) {
    seen.push_back(name);
    return OkStatus();
  };
  const auto run = [&] {
    auto out = session->Run(feeds, hooks);
    REQUIRE(out.ok());
    return FloatsOf((*out)[0].second);
  };
  const std::vector<float> single = run();
  CHECK(seen == std::vector<std::string>{"product", "sum", "rest", "y"});
  seen.clear();
  hooks.chosen = [](const std::string& name) { return name == "sum"; };
  hooks.timed = [&](std::span<const NodeId> nodes, double) { ran = std::max(ran, nodes.size()); };
  CHECK(run() == single);
  CHECK(seen == std::vector<std::string>{"sum"});
  CHECK(ran == 2);  // the product with its sum; what comes after the value that is seen is alone
  hooks.probe = nullptr;
  CHECK(run() == single);
  CHECK(ran == 4);
}

TEST_CASE("feeds are checked, and the sentence says what was wanted and found") {
  SmallModel m;
  const ValueId x = m.Input("x", {kBatch, {2, {}}});
  const ValueId ids = m.Input("ids", {kBatch}, DType::kInt64);
  m.Constant("fixed", Floats({1}, {1}), /*also_input=*/true);
  m.Output(m.Op("Identity", {x}, "y"));
  m.Output(m.Op("Identity", {ids}, "z"));
  auto session = MustCreate(m.model);
  const Tensor good_x = Floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto error = [&](NamedTensors feeds) {
    const auto out = session->Run(feeds);
    REQUIRE(!out.ok());
    CHECK(ExitCode(out.status()) == 3);
    return ErrorOf(out.status());
  };
  CHECK(error({{"x", good_x}}) == "input ids is not fed; the model wants x, ids");
  CHECK(error({{"x", good_x}, {"idz", Ints({3}, {1, 2, 3})}}) == "the model has no input idz; it wants x, ids");
  CHECK(error({{"x", good_x}, {"ids", Floats({3}, {1, 2, 3})}}) == "input ids wants int64, the sample has float32");
  CHECK(error({{"x", Floats({3}, {1, 2, 3})}, {"ids", Ints({3}, {1, 2, 3})}}) ==
        "input x wants batch x 2, the sample has 3");
  CHECK(error({{"x", Floats({1, 3}, {1, 2, 3})}, {"ids", Ints({1}, {1})}}) ==
        "input x wants batch x 2, the sample has 1x3");
  CHECK(error({{"x", good_x}, {"ids", Ints({2}, {1, 2})}}) == "dimension batch is 3 in input x but 2 in input ids");
  CHECK(error({{"x", good_x}, {"ids", Ints({3}, {1, 2, 3})}, {"fixed", Floats({1}, {2})}}) ==
        "input fixed has its value in the model and takes no other; feed x, ids");
  MustRun(*session, {{"ids", Ints({3}, {1, 2, 3})}, {"x", good_x}});
}

TEST_CASE("operators without a kernel are named, all of them") {
  SmallModel m;
  const ValueId x = m.Input("x", {{2, {}}});
  m.Output(m.Op("Zork", {m.Op("Blub", {m.Op("Zork", {x}, "a")}, "b")}, "c"));
  CHECK(OpsWithoutKernel(m.model) == std::vector<std::string>{"Blub (ai.onnx 21)", "Zork (ai.onnx 21)"});
  const auto session = Session::Create(m.model);
  REQUIRE(!session.ok());
  CHECK(ExitCode(session.status()) == 4);
  CHECK(ErrorOf(session.status()) == "the executor has no kernel for Blub (ai.onnx 21), Zork (ai.onnx 21)");
}

TEST_CASE("an operator newer than the model's opset has no kernel there") {
  SmallModel m(13);
  m.Output(m.Op("Gelu", {m.Input("x", {{2, {}}})}, "y"));
  CHECK(OpsWithoutKernel(m.model) == std::vector<std::string>{"Gelu (ai.onnx 13)"});
}

TEST_CASE("a kernel's error names node, operator and inputs") {
  SmallModel m;
  const ValueId x = m.Input("x", {{-1, {}}, {-1, {}}});
  m.Output(m.Op("MatMul", {x, m.Constant("w", Floats({2, 1}, {1, 1}))}, "y"));
  auto session = MustCreate(m.model);
  const auto out = session->Run({{"x", Floats({1, 3}, {1, 2, 3})}});
  REQUIRE(!out.ok());
  CHECK(ExitCode(out.status()) == 3);
  CHECK(ErrorOf(out.status()).rfind("node MatMul_y (MatMul; inputs float32[1x3], float32[2x1]): ", 0) == 0);
}

TEST_CASE("a required input that is left out is an error before any run") {
  SmallModel m;
  m.Output(m.Op("Add", {m.Input("x", {{2, {}}}), kNoValue}, "y"));
  const auto session = Session::Create(m.model);
  REQUIRE(!session.ok());
  CHECK(ExitCode(session.status()) == 3);
  CHECK(ErrorOf(session.status()).find("Add_y") != std::string::npos);
}

TEST_CASE("optional inputs left out are null to the kernel") {
  SmallModel m;
  const ValueId x = m.Input("x", {{3, {}}});
  m.Output(m.Op("Clip", {x, kNoValue, m.Constant("top", Tensor::Scalar(2.0f))}, "y"));
  auto session = MustCreate(m.model);
  const auto out = MustRun(*session, {{"x", Floats({3}, {-5, 1, 9})}});
  CHECK(FloatsOf(out[0].second) == std::vector<float>{-5, 1, 2});
}

TEST_CASE("graph outputs may be inputs, initializers, or one value twice") {
  SmallModel m;
  const ValueId x = m.Input("x", {{2, {}}});
  const ValueId c = m.Constant("c", Floats({1}, {7}));
  const ValueId y = m.Op("Neg", {x}, "y");
  for (ValueId v : {x, c, y, y}) m.Output(v);
  auto session = MustCreate(m.model);
  const auto out = MustRun(*session, {{"x", Floats({2}, {1, 2})}});
  REQUIRE(out.size() == 4);
  CHECK(out[0].first == "x");
  CHECK(FloatsOf(out[1].second) == std::vector<float>{7});
  CHECK(FloatsOf(out[2].second) == std::vector<float>{-1, -2});
  CHECK(FloatsOf(out[3].second) == std::vector<float>{-1, -2});
}

TEST_CASE("constant subgraphs are evaluated once, when the session is made") {
  SmallModel m;
  const ValueId x = m.Input("x", {{2, {}}});
  const ValueId doubled =
      m.Op("Add", {m.Constant("c", Floats({2}, {1, 2})), m.graph().main().initializers[0]}, "doubled");
  m.Output(m.Op("Add", {x, m.Op("Neg", {doubled}, "negated")}, "y"));
  for (const int64_t limit : {int64_t{1} << 20, int64_t{0}}) {
    SessionOptions options;
    options.max_folded_bytes = limit;
    auto session = MustCreate(m.model, options);
    std::vector<std::string> seen;
    const auto out = MustRun(*session, {{"x", Floats({2}, {10, 10})}}, [&](const std::string& name, const Tensor&) {
      seen.push_back(name);
      return OkStatus();
    });
    CHECK(FloatsOf(out[0].second) == std::vector<float>{8, 6});
    CHECK(seen.size() == (limit > 0 ? 1u : 3u));
  }
}

// Two outputs; counts how often it is asked.
struct CountingProducer : TensorProducer {
  mutable std::atomic<int> calls = 0;
  int output_count() const override { return 2; }
  Status Produce(std::span<ByteSink* const> sinks) const override {
    ++calls;
    const float first[] = {1, 2};
    const float second[] = {10, 20};
    RETURN_IF_ERROR(sinks[0]->Write(0, std::as_bytes(std::span(first))));
    return sinks[1]->Write(0, std::as_bytes(std::span(second)));
  }
};

TEST_CASE("outputs of one producer are made together, once") {
  SmallModel m;
  auto producer = std::make_shared<CountingProducer>();
  const ValueId a = m.Constant("a", Tensor::FromProducer(DType::kFloat, {2}, {producer, 0}));
  const ValueId b = m.Constant("b", Tensor::FromProducer(DType::kFloat, {2}, {producer, 1}));
  const ValueId row = m.Constant("row", Tensor::FromProducer(DType::kFloat, {1, 2}, {producer, 1}));
  const ValueId x = m.Input("x", {{2, {}}});
  m.Output(m.Op("Add", {m.Op("Add", {x, a}, "xa"), b}, "y"));
  m.Output(m.Op("Add", {x, row}, "z"));
  auto session = MustCreate(m.model);
  const auto out = MustRun(*session, {{"x", Floats({2}, {100, 200})}});
  CHECK(FloatsOf(out[0].second) == std::vector<float>{111, 222});
  CHECK(FloatsOf(out[1].second) == std::vector<float>{110, 220});
  CHECK(out[1].second.dims() == Dims{1, 2});
  CHECK(producer->calls == 1);
}

TEST_CASE("a producer that fails is an error, not a session") {
  struct Failing : TensorProducer {
    int output_count() const override { return 1; }
    Status Produce(std::span<ByteSink* const>) const override { return DataError("weight w has 3 NaN"); }
  };
  SmallModel m;
  const ValueId w = m.Constant("w", Tensor::FromProducer(DType::kFloat, {2}, {std::make_shared<Failing>(), 0}));
  m.Output(m.Op("Add", {m.Input("x", {{2, {}}}), w}, "y"));
  const auto session = Session::Create(m.model);
  REQUIRE(!session.ok());
  CHECK(ErrorOf(session.status()) == "weight w has 3 NaN");
}

TEST_CASE("results are the same bytes for any number of threads") {
  SmallModel m;
  const ValueId x = m.Input("x", {{64, {}}, {96, {}}});
  std::vector<float> weights(96 * 80);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>((i * 2654435761u) % 1000) / 999.0f - 0.5f;
  m.Output(m.Op("Softmax", {m.Op("MatMul", {x, m.Constant("w", Floats({96, 80}, weights))}, "p")}, "y"));
  std::vector<float> values(64 * 96);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 40503u) % 777) / 776.0f - 0.5f;
  std::vector<float> reference;
  for (const int threads : {1, 2, 8}) {
    SetThreads(threads);
    auto session = MustCreate(m.model);
    const auto out = MustRun(*session, {{"x", Floats({64, 96}, values)}});
    if (reference.empty()) reference = FloatsOf(out[0].second);
    CHECK(FloatsOf(out[0].second) == reference);
  }
  SetThreads(0);
}

}  // namespace
}  // namespace quant
