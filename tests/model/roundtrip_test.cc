// Reading and then writing changes nothing but layout: names, attributes, metadata, functions, bodies, opset imports
// and fields we don't know survive.
#include <google/protobuf/unknown_field_set.h>

#include "libquant/model/proto.h"
#include "tests/model/model_fixture.h"

namespace quant {
namespace {

// Writes what was read, inline and external; both must say what the original says, and a second pass the same bytes.
void CheckRoundTrip(const std::string& original) {
  INFO(original);
  const Model model = Require(ReadModel(original));
  for (const ExternalData mode : {ExternalData::kNever, ExternalData::kAlways}) {
    const Folder folder;
    WriteOptions options;
    options.external_data = mode;
    const WriteResult result = Require(WriteModel(model, folder / "out.onnx", options));
    REQUIRE(static_cast<uintmax_t>(result.model_bytes) == fs::file_size(folder / "out.onnx"));
    REQUIRE((result.data_bytes > 0) == fs::exists(folder / "out.onnx.data"));
    REQUIRE(DifferencesOf(original, folder / "out.onnx") == "");

    const Folder again;
    const Model second = Require(ReadModel(folder / "out.onnx"));
    Require(WriteModel(second, again / "out.onnx", options));
    REQUIRE(BytesOf(again / "out.onnx") == BytesOf(folder / "out.onnx"));
    if (result.data_bytes > 0) REQUIRE(BytesOf(again / "out.onnx.data") == BytesOf(folder / "out.onnx.data"));
  }
}

void AddUnknown(google::protobuf::Message* message, int number) {
  auto* unknown = message->GetReflection()->MutableUnknownFields(message);
  unknown->AddVarint(number, 7);
  unknown->AddLengthDelimited(number + 1)->assign("kept as it is");
  unknown->AddGroup(number + 2)->AddFixed32(1, 5);
}

constexpr char kEverything[] = R"(
<ir_version: 10, opset_import: ["" : 21, "local" : 1, "unused.domain" : 3], producer_name: "a tool",
 doc_string: "model doc", metadata_props: ["k2": "v2", "k1": "v1"]>
main_graph (float[batch, 4] x, bool cond, float[4, 4] w, seq(float[2]) s) => (float[batch, 4] y, float[N, M] z, bool cond)
<float[4, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, int64[2] shape = {-1, 4}, float[batch, 4] mid>
{
  [first] mid = MatMul (x, w)
  c = Constant <value_floats = [0.5, 1.5]> ()
  y = If (cond) <
    then_branch = then_graph () => (float[batch, 4] t) {
      zero = Constant <value = float {0}> ()
      inner = If (cond) <
        then_branch = deep () => (float[] d) { d = Add (mid, zero) },
        else_branch = deep2 () => (float[] d) { d = Sub (mid, w) }
      >
      t = local.Twice <gain: float = 2.0> (inner)
    },
    else_branch = else_graph () => (float[batch, 4] t) { t = Identity (mid) }
  >
  q, , r = local.Odd (x, , mid)
  z = Clip (q, , r)
}
<domain: "local", opset_import: ["" : 20], doc_string: "function doc">
Twice <gain, offset: float = 1.0> (a) => (b)
{
  factor = Constant <value_float: float = @gain> ()
  b = Mul (a, factor)
}
)";

}  // namespace

TEST_CASE("real models survive reading and writing") {
  const fs::path models(NIBBLE_SHARED_MODELS);
  if (!fs::exists(models)) {
    WARN("not run: no real models at " NIBBLE_SHARED_MODELS);
    return;
  }
  int count = 0;
  for (const auto& entry : fs::directory_iterator(models)) {
    if (entry.path().extension() != ".onnx") continue;
    CheckRoundTrip(entry.path().string());
    ++count;
  }
  REQUIRE(count > 0);
}

TEST_CASE("ONNX's own conformance models survive") {
  const fs::path data(NIBBLE_ONNX_DATA);
  if (!fs::exists(data)) {
    WARN("not run: no ONNX conformance data at '" NIBBLE_ONNX_DATA "'");
    return;
  }
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (entry.path().extension() != ".onnx") continue;
    INFO(entry.path().string());
    const Model model = Require(ReadModel(entry.path().string()));
    std::vector<Tensor> payloads;
    onnx::ModelProto written = Require(ToSkeleton(model, &payloads));
    // No file in between (there are 1,900 of them): the payloads go back inline here.
    ForEach<onnx::TensorProto>(&written, [&](onnx::TensorProto* t) {
      const auto index = PayloadIndex(*t);
      if (!index) return;
      const Tensor owned = Require(payloads.at(static_cast<size_t>(*index)).Materialize());
      t->clear_external_data();
      t->clear_data_location();
      t->set_raw_data(owned.bytes().data(), owned.bytes().size());
    });
    onnx::ModelProto original;
    REQUIRE(original.ParseFromString(BytesOf(entry.path().string())));
    REQUIRE(DifferencesOf(original, written, entry.path().parent_path()) == "");
    ++count;
  }
  REQUIRE(count > 1000);
}

TEST_CASE("bodies, functions, metadata and unknown fields survive") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(kEverything);
  auto* graph = proto.mutable_graph();
  for (google::protobuf::Message* m : std::initializer_list<google::protobuf::Message*>{
           &proto, graph, graph->mutable_node(0), graph->mutable_node(2)->mutable_attribute(0)->mutable_g(),
           graph->mutable_node(1)->mutable_attribute(0), graph->mutable_initializer(0), graph->mutable_input(0),
           graph->mutable_value_info(0), proto.mutable_functions(0)}) {
    AddUnknown(m, 900);
  }
  auto* node = graph->mutable_node(0);
  node->set_doc_string("why");
  node->add_metadata_props()->set_key("namespace");
  node->add_device_configurations()->set_configuration_id("gpu");
  graph->mutable_initializer(0)->set_doc_string("a weight");
  graph->mutable_node(1)->mutable_attribute(0)->set_doc_string("an attribute");
  auto* annotation = graph->add_quantization_annotation();
  annotation->set_tensor_name("w");
  annotation->add_quant_parameter_tensor_names()->set_key("SCALE_TENSOR");
  proto.add_training_info()->mutable_algorithm()->set_name("sgd");
  proto.add_configuration()->set_name("gpu");
  PutProto(folder / "in.onnx", proto);
  CheckRoundTrip(folder / "in.onnx");
}

TEST_CASE("types that we don't model survive") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(kEverything);
  auto* graph = proto.mutable_graph();
  auto* dims = graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims->mutable_dim(0)->set_denotation("DATA_BATCH");
  graph->mutable_input(0)->mutable_type()->set_denotation("IMAGE");
  dims->mutable_dim(1)->set_dim_value(-1);
  // An input that is an initializer and says less, or something else, than its tensor.
  graph->mutable_input(2)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("K");
  // A type without an element type, and value_info of: an input, an output, a name that nothing has, twice the same.
  graph->mutable_output(1)->mutable_type()->mutable_tensor_type()->clear_elem_type();
  for (const char* name : {"x", "y", "nothing_has_this", "mid", "shape"}) {
    auto* info = graph->add_value_info();
    info->set_name(name);
    info->set_doc_string(std::string("info of ") + name);
  }
  auto* optional = graph->add_value_info();
  optional->set_name("q");
  optional->mutable_type()->mutable_optional_type()->mutable_elem_type()->mutable_sequence_type()->mutable_elem_type();
  PutProto(folder / "in.onnx", proto);
  CheckRoundTrip(folder / "in.onnx");
}

TEST_CASE("outputs that repeat, pass an input through, or name an outer value keep their own infos") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N] x, bool cond) => (float[N] y, float[2] y, float[3] x, float[N] out)
    {
      y = Relu (x)
      out = If (cond) <then_branch = a () => (float[M] y) { unused = Neg (y) }, else_branch = b () => (float[] x) { u2 = Neg (y) }>
    })");
  PutProto(folder / "in.onnx", proto);
  CheckRoundTrip(folder / "in.onnx");
}

TEST_CASE("every kind of attribute and tensor survives") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(R"(
    <ir_version: 10, opset_import: ["" : 21, "d" : 1]>
    g (float[N] x) => (float[N] y)
    { y = d.Op <i = 3, f = 0.25, s = "text", is = [1, -2], fs = [1.0, 2.0], ss = ["a", "b"], t = int8[3] {1, -2, 3}> (x) })");
  auto* node = proto.mutable_graph()->mutable_node(0);
  const auto add = [&](const char* name, onnx::AttributeProto::AttributeType type) {
    auto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  };
  auto* tensors = add("tensors", onnx::AttributeProto::TENSORS);
  for (const int n : {2, 600}) {
    auto* t = tensors->add_tensors();
    t->set_name(fmt::format("of{}", n));
    t->set_data_type(onnx::TensorProto::UINT16);
    t->add_dims(n);
    for (int i = 0; i < n; ++i) t->add_int32_data(i * 100);
  }
  auto* graphs = add("graphs", onnx::AttributeProto::GRAPHS);
  for (int i = 0; i < 2; ++i) {
    *graphs->add_graphs() = ProtoOfText(R"(<ir_version: 8, opset_import: ["" : 17]>
      body (float[N] in) => (float[N] r) { r = Add (in, x) })")
                                .graph();
  }
  auto* sparse = add("sparse", onnx::AttributeProto::SPARSE_TENSOR)->mutable_sparse_tensor();
  sparse->add_dims(3);
  sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse->mutable_values()->add_dims(1);
  sparse->mutable_values()->add_float_data(2.5f);
  add("type", onnx::AttributeProto::TYPE_PROTO)->mutable_tp()->mutable_tensor_type()->set_elem_type(1);
  add("nothing", onnx::AttributeProto::INTS);
  auto* strings = proto.mutable_graph()->add_initializer();
  strings->set_name("strings");
  strings->set_data_type(onnx::TensorProto::STRING);
  strings->add_dims(2);
  strings->add_string_data(std::string("nul\0inside", 10));
  strings->add_string_data("");
  auto* scarce = proto.mutable_graph()->add_sparse_initializer();
  *scarce = *sparse;
  scarce->mutable_values()->set_name("scarce");
  auto* empty = proto.mutable_graph()->add_initializer();
  empty->set_name("empty");
  empty->set_data_type(onnx::TensorProto::FLOAT);
  empty->add_dims(0);
  node->add_input("strings");
  node->add_input("scarce");
  node->add_input("empty");
  PutProto(folder / "in.onnx", proto);
  CheckRoundTrip(folder / "in.onnx");
}

TEST_CASE("external data of tensors we carry unread is brought along") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float[3] sp) => (float[3] y) { y = Add (x, sp) })");
  auto* sparse = proto.mutable_graph()->add_sparse_initializer();
  sparse->add_dims(3);
  auto* values = sparse->mutable_values();
  values->set_name("sp");
  values->set_data_type(onnx::TensorProto::FLOAT);
  values->add_dims(1);
  values->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = values->add_external_data();
  location->set_key("location");
  location->set_value("values.bin");
  sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(2);
  PutProto(folder / "in.onnx", proto);
  PutBytes(folder / "values.bin", std::string("\0\0\x80\x3f", 4));
  CheckRoundTrip(folder / "in.onnx");
}

}  // namespace quant
