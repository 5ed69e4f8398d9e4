// Outputs appear whole or not at all, producers run once, and no output is ever one of the inputs.
#include "libquant/model/write.h"

#include <sys/resource.h>

#include <csignal>
#include <numeric>

#include "tests/model/model_fixture.h"

namespace quant {
namespace {

std::vector<std::byte> Pattern(int64_t size, int seed) {
  std::vector<std::byte> out(static_cast<size_t>(size));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(seed));
  return out;
}

// Makes `sizes.size()` outputs of patterned bytes, in pieces and last output first; counts its runs.
class PatternProducer : public TensorProducer {
 public:
  explicit PatternProducer(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}
  int output_count() const override { return static_cast<int>(sizes_.size()); }
  Status Produce(std::span<ByteSink* const> sinks) const override {
    ++runs;
    for (size_t i = sizes_.size(); i-- > 0;) {
      const auto bytes = Pattern(sizes_[i], static_cast<int>(i));
      const int64_t half = sizes_[i] / 2;
      RETURN_IF_ERROR(sinks[i]->Write(half, std::span(bytes).subspan(static_cast<size_t>(half))));
      if (i == 0 && fail) return DataError("the weight holds 3 NaN");
      if (i == 0 && stop_early) continue;
      RETURN_IF_ERROR(sinks[i]->Write(0, std::span(bytes).first(static_cast<size_t>(half))));
    }
    return OkStatus();
  }
  mutable int runs = 0;
  bool fail = false;
  bool stop_early = false;

 private:
  std::vector<int64_t> sizes_;
};

// y = x + w0 + w1 + ...: a model that holds the given tensors as initializers.
Model ModelWith(const std::vector<Tensor>& weights) {
  Model model;
  model.ir_version = 10;
  model.opsets.push_back({"", 21});
  Graph& graph = model.graph;
  Value x;
  x.name = "x";
  x.dtype = DType::kFloat;
  x.is_input = true;
  const ValueId input = graph.AddValue(std::move(x));
  graph.main().inputs.push_back(input);
  Node sum;
  sum.op_type = "Sum";
  sum.inputs.push_back(input);
  for (const Tensor& w : weights) {
    Value value;
    value.name = graph.FreshName("w");
    value.dtype = w.dtype();
    value.shape = ShapeOf(w.dims());
    value.is_initializer = true;
    value.constant = w;
    const ValueId id = graph.AddValue(std::move(value));
    graph.main().initializers.push_back(id);
    sum.inputs.push_back(id);
  }
  Value y;
  y.name = "y";
  y.dtype = DType::kFloat;
  sum.outputs.push_back(graph.AddValue(std::move(y)));
  graph.AddNode(std::move(sum));
  graph.AddOutput(kMainRegion, graph.node(0).outputs[0]);
  return model;
}

Tensor Owned(int64_t size, int seed) {
  const auto bytes = Pattern(size, seed);
  return Tensor::Of<uint8_t>({size}, std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

std::vector<Tensor> WeightsOf(const Model& model) {
  std::vector<Tensor> out;
  for (ValueId v : model.graph.main().initializers) out.push_back(*model.graph.value(v).constant);
  return out;
}

void CheckBytes(const Tensor& tensor, int64_t size, int seed) {
  const Tensor owned = Require(tensor.Materialize());
  const auto wanted = Pattern(size, seed);
  REQUIRE(owned.byte_size() == size);
  REQUIRE(std::equal(wanted.begin(), wanted.end(), owned.bytes().begin()));
}

WriteOptions Mode(ExternalData mode) {
  WriteOptions options;
  options.external_data = mode;
  return options;
}

}  // namespace

TEST_CASE("a producer runs once for all of its outputs, wherever they go") {
  for (const ExternalData mode : {ExternalData::kNever, ExternalData::kAlways, ExternalData::kAuto}) {
    const Folder folder;
    const auto producer = std::make_shared<PatternProducer>(std::vector<int64_t>{5000, 300, 2000, 40});
    const auto made = [&](int output, int64_t size) {
      return Tensor::FromProducer(DType::kUint8, {size}, {producer, output});
    };
    // Output 2 is not in the model: its bytes go nowhere. Output 0 is in it twice.
    const Model model =
        ModelWith({made(0, 5000), Owned(3000, 9), made(1, 300), made(0, 5000).Reshaped({50, 100}), made(3, 40)});
    int64_t reported = 0, total = 0;
    WriteOptions options = Mode(mode);
    options.progress = [&](int64_t done, int64_t of) {
      reported = done;
      total = of;
    };
    const WriteResult result = Require(WriteModel(model, folder / "out.onnx", options));
    CHECK(producer->runs == 1);
    CHECK(reported > 0);
    CHECK(reported == total);
    const std::vector<Tensor> weights = WeightsOf(Require(ReadModel(folder / "out.onnx")));
    REQUIRE(weights.size() == 5);
    CheckBytes(weights[0], 5000, 0);
    CheckBytes(weights[1], 3000, 9);
    CheckBytes(weights[2], 300, 1);
    CheckBytes(weights[3], 5000, 0);
    CheckBytes(weights[4], 40, 3);
    CHECK(weights[3].dims() == Dims{50, 100});
    if (mode == ExternalData::kAlways) {
      // Small tensors stay inline; sharers name one range; large ranges begin on a page.
      CHECK(weights[0].SharesPayloadWith(weights[3]));
      CHECK(weights[0].file_range()->offset == 0);
      CHECK(weights[1].file_range()->offset == 5056);
      CHECK(result.data_bytes == 5056 + 3000);
      CHECK(weights[2].is_owned());
      CHECK(fs::file_size(folder / "out.onnx.data") == 5056 + 3000);
    } else {
      CHECK(result.data_bytes == 0);
      CHECK(folder.Files() == std::vector<std::string>{"out.onnx"});
    }
  }
}

TEST_CASE("large external ranges begin on pages") {
  const Folder folder;
  const Model model = ModelWith({Owned(1500, 1), Owned(4096, 2), Owned(1024, 3), Owned(100000, 4)});
  Require(WriteModel(model, folder / "out.onnx", Mode(ExternalData::kAlways)));
  const std::vector<Tensor> weights = WeightsOf(Require(ReadModel(folder / "out.onnx")));
  std::vector<int64_t> offsets;
  for (const Tensor& w : weights) offsets.push_back(w.file_range()->offset);
  CHECK(offsets == std::vector<int64_t>{0, 4096, 8192, 12288});
}

TEST_CASE("a run after another replaces its files, it never appends") {
  const Folder folder;
  const std::string path = folder / "out.onnx";
  Require(WriteModel(ModelWith({Owned(9000, 1)}), path, Mode(ExternalData::kAlways)));
  Require(WriteModel(ModelWith({Owned(5000, 2)}), path, Mode(ExternalData::kAlways)));
  CHECK(fs::file_size(path + ".data") == 5000);
  CheckBytes(WeightsOf(Require(ReadModel(path)))[0], 5000, 2);
  // Inline now: the model no longer reads the old data file.
  Require(WriteModel(ModelWith({Owned(6000, 3)}), path, Mode(ExternalData::kNever)));
  const Model inline_model = Require(ReadModel(path));
  CHECK(inline_model.sources.size() == 1);
  CheckBytes(WeightsOf(inline_model)[0], 6000, 3);
  Require(WriteModel(ModelWith({Owned(7000, 4)}), path, Mode(ExternalData::kAlways)));
  CHECK(fs::file_size(path + ".data") == 7000);
  CheckBytes(WeightsOf(Require(ReadModel(path)))[0], 7000, 4);
}

TEST_CASE("a failure leaves the target as it was and nothing beside it") {
  for (const ExternalData mode : {ExternalData::kNever, ExternalData::kAlways}) {
    const Folder folder;
    const std::string path = folder / "out.onnx";
    Require(WriteModel(ModelWith({Owned(9000, 1)}), path, Mode(mode)));
    const auto files = folder.Files();
    const std::string before = BytesOf(path);
    const auto producer = std::make_shared<PatternProducer>(std::vector<int64_t>{5000});
    const Model model = ModelWith({Tensor::FromProducer(DType::kUint8, {5000}, {producer, 0})});
    SECTION("the producer fails") {
      producer->fail = true;
      const Status status = WriteModel(model, path, Mode(mode)).status();
      CHECK(ExitCode(status) == 3);
      CHECK(ErrorOf(status).find("3 NaN") != std::string::npos);
    }
    SECTION("the producer leaves bytes out") {
      producer->stop_early = true;
      CHECK(ExitCode(WriteModel(model, path, Mode(mode)).status()) == 70);
    }
    SECTION("the disk takes no more") {
      const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
      struct rlimit old_limit;
      getrlimit(RLIMIT_FSIZE, &old_limit);
      const struct rlimit tiny = {2000, old_limit.rlim_max};
      setrlimit(RLIMIT_FSIZE, &tiny);
      const Status status = WriteModel(model, path, Mode(mode)).status();
      setrlimit(RLIMIT_FSIZE, &old_limit);
      std::signal(SIGXFSZ, old_handler);
      INFO(ErrorOf(status));
      CHECK(ExitCode(status) == 5);
      CHECK(producer->runs == 0);
    }
    CHECK(folder.Files() == files);
    CHECK(BytesOf(path) == before);
    CheckBytes(WeightsOf(Require(ReadModel(path)))[0], 9000, 1);
  }
}

TEST_CASE("an output that is an input, or its data, is refused") {
  const Folder folder;
  const std::string path = folder / "in.onnx";
  Require(WriteModel(ModelWith({Owned(9000, 1)}), path, Mode(ExternalData::kAlways)));
  const Model model = Require(ReadModel(path));
  fs::create_hard_link(path, folder / "hard.onnx");
  fs::create_symlink("in.onnx", folder / "soft.onnx");
  fs::create_symlink("in.onnx.data", folder / "other.onnx.data");
  for (const char* target : {"in.onnx", "hard.onnx", "soft.onnx", "in.onnx.data"}) {
    INFO(target);
    CHECK(ExitCode(WriteModel(model, folder / target, Mode(ExternalData::kNever)).status()) == 2);
  }
  CHECK(ExitCode(WriteModel(model, folder / "other.onnx", Mode(ExternalData::kAlways)).status()) == 2);
  CHECK_FALSE(fs::exists(folder / "other.onnx"));
  CheckBytes(WeightsOf(Require(ReadModel(path)))[0], 9000, 1);
  Require(WriteModel(model, folder / "fine.onnx", Mode(ExternalData::kNever)));
}

TEST_CASE("what can't be one file says so before anything is made") {
  const Folder folder;
  const int64_t three_gib = int64_t{3} << 30;
  const auto producer = std::make_shared<PatternProducer>(std::vector<int64_t>{three_gib});
  const Model model = ModelWith({Tensor::FromProducer(DType::kUint8, {three_gib}, {producer, 0})});
  const Status status = WriteModel(model, folder / "out.onnx", Mode(ExternalData::kNever)).status();
  CHECK(ExitCode(status) == 4);
  CHECK(ErrorOf(status).find("external data") != std::string::npos);
  CHECK(producer->runs == 0);
  CHECK(folder.Files().empty());
}

TEST_CASE("a folder that is not there is an output error") {
  const Folder folder;
  CHECK(ExitCode(WriteModel(ModelWith({Owned(10, 1)}), folder / "none/out.onnx").status()) == 5);
  fs::create_directories(folder.path() / "dir.onnx");
  CHECK(ExitCode(WriteModel(ModelWith({Owned(10, 1)}), folder / "dir.onnx").status()) == 5);
}

TEST_CASE("an attribute that a rewrite replaced leaves nothing of the old one") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2] x) => (float[2] y) { y = Add (x, c)  c = Constant <value = float[2] {1.0, 2.0}> () })");
  proto.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_t()->set_name("old");
  Model model = Require(ReadProto(folder, proto));
  for (NodeId n : model.graph.AllNodes()) {
    Node& node = model.graph.node(n);
    if (node.op_type == "Constant") node.attributes.Set("value", int64_t{4});
  }
  Require(WriteModel(model, folder / "out.onnx"));
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(BytesOf(folder / "out.onnx")));
  const auto& attribute = written.graph().node(0).attribute(0);
  CHECK(attribute.type() == onnx::AttributeProto::INT);
  CHECK_FALSE(attribute.has_t());
}

TEST_CASE("types that changed are written, kept ones that no longer hold are not") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N, 2] x) => (float[N, 2] y) <float[N, 2] m> { m = Relu (x)  y = Neg (m) })");
  auto* copy = proto.mutable_graph()->add_value_info();
  *copy = proto.graph().input(0);
  Model model = Require(ReadProto(folder, proto));
  Value& x = model.graph.value(model.graph.main().inputs[0]);
  x.dtype = DType::kFloat16;
  x.shape = ShapeOf(Dims{4, 2});
  Require(WriteModel(model, folder / "out.onnx"));
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(BytesOf(folder / "out.onnx")));
  CHECK(written.graph().input(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT16);
  CHECK(written.graph().input(0).type().tensor_type().shape().dim(0).dim_value() == 4);
  REQUIRE(written.graph().value_info_size() == 1);
  CHECK(written.graph().value_info(0).name() == "m");
}

}  // namespace quant
