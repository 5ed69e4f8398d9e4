// What a model file means: names, scopes, constants in all their forms, payloads that stay in files.
#include "libquant/model/read.h"

#include "libquant/model/tensor_file.h"
#include "tests/model/model_fixture.h"

namespace quant {
namespace {

ValueId IdOf(const Graph& graph, const std::string& name, RegionId region = -1) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (graph.value(v).name == name && (region < 0 || graph.value(v).region == region)) return v;
  }
  return kNoValue;
}

const Value& ValueOf(const Graph& graph, const std::string& name, RegionId region = -1) {
  const ValueId id = IdOf(graph, name, region);
  INFO(name);
  REQUIRE(id != kNoValue);
  return graph.value(id);
}

template <typename T>
std::vector<T> DataOf(const Tensor& tensor) {
  REQUIRE(tensor.dtype() == DTypeOf<T>());
  const Tensor owned = Require(tensor.Materialize());
  return {owned.data<T>().begin(), owned.data<T>().end()};
}

std::vector<std::string> Order(const Model& model) {
  std::vector<std::string> out;
  for (NodeId n : model.graph.main().nodes) out.push_back(model.graph.node(n).op_type);
  return out;
}

std::string Hex(const Tensor& tensor) {
  std::string out;
  for (const std::byte b : tensor.bytes()) out += fmt::format("{:02x}", static_cast<int>(b));
  return out;
}

onnx::TensorProto* AddInitializer(onnx::ModelProto* model, const std::string& name, int dtype,
                                  const std::vector<int64_t>& dims) {
  auto* t = model->mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(dtype);
  for (int64_t d : dims) t->add_dims(d);
  return t;
}

void SetExternal(onnx::TensorProto* t, const std::vector<std::pair<std::string, std::string>>& entries) {
  t->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto* entry = t->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

onnx::ModelProto Plain() {
  return ProtoOfText(R"(<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Relu (x) })");
}

}  // namespace

TEST_CASE("typed fields of every element type become raw bytes") {
  struct Row {
    int dtype;
    int64_t count;
    std::vector<int32_t> int32_data;
    const char* hex;
  };
  using P = onnx::TensorProto;
  const std::vector<Row> rows = {{P::UINT8, 2, {1, 255}, "01ff"},
                                 {P::INT8, 2, {-1, 127}, "ff7f"},
                                 {P::BOOL, 2, {1, 0}, "0100"},
                                 {P::UINT16, 2, {1, 65535}, "0100ffff"},
                                 {P::INT16, 2, {-2, 258}, "feff0201"},
                                 {P::INT32, 1, {-2}, "feffffff"},
                                 {P::FLOAT16, 2, {0x3c00, 0xbc00}, "003c00bc"},
                                 {P::BFLOAT16, 1, {0x3f80}, "803f"},
                                 {P::FLOAT8E4M3FN, 2, {0x38, 0xb8}, "38b8"},
                                 {P::UINT4, 3, {0x21, 0x03}, "2103"},
                                 {P::INT4, 3, {0xf1, 0x08}, "f108"},
                                 {P::FLOAT4E2M1, 1, {0x02}, "02"},
                                 {P::INT2, 5, {0xe4, 0x01}, "e401"}};
  onnx::ModelProto proto = Plain();
  proto.set_ir_version(13);
  for (size_t i = 0; i < rows.size(); ++i) {
    auto* t = AddInitializer(&proto, fmt::format("t{}", i), rows[i].dtype, {rows[i].count});
    for (int32_t v : rows[i].int32_data) t->add_int32_data(v);
  }
  AddInitializer(&proto, "i64", P::INT64, {1})->add_int64_data(-2);
  AddInitializer(&proto, "u32", P::UINT32, {2})->add_uint64_data(4294967295u);
  proto.mutable_graph()->mutable_initializer()->rbegin()->add_uint64_data(1);
  AddInitializer(&proto, "u64", P::UINT64, {})->add_uint64_data(258);
  AddInitializer(&proto, "f32", P::FLOAT, {1, 1})->add_float_data(1.0f);
  AddInitializer(&proto, "f64", P::DOUBLE, {1})->add_double_data(-2.0);
  auto* complex = AddInitializer(&proto, "c64", P::COMPLEX64, {1});
  complex->add_float_data(1.0f);
  complex->add_float_data(-1.0f);
  const Folder folder;
  const Model model = Require(ReadProto(folder, proto));
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(rows[i].hex);
    CHECK(Hex(*ValueOf(model.graph, fmt::format("t{}", i)).constant) == rows[i].hex);
  }
  CHECK(Hex(*ValueOf(model.graph, "i64").constant) == "feffffffffffffff");
  CHECK(Hex(*ValueOf(model.graph, "u32").constant) == "ffffffff01000000");
  CHECK(Hex(*ValueOf(model.graph, "u64").constant) == "0201000000000000");
  CHECK(Hex(*ValueOf(model.graph, "f32").constant) == "0000803f");
  CHECK(Hex(*ValueOf(model.graph, "f64").constant) == "00000000000000c0");
  CHECK(Hex(*ValueOf(model.graph, "c64").constant) == "0000803f000080bf");
}

TEST_CASE("every form of Constant is a constant value") {
  const Folder folder;
  const Model model = Require(ReadProto(folder, ProtoOfText(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)
    {
      a = Constant <value = int64[2] {3, 4}> ()
      b = Constant <value_float = 0.5> ()
      c = Constant <value_floats = [1.0, 2.0]> ()
      d = Constant <value_int = -7> ()
      e = Constant <value_ints = [1, 2, 3]> ()
      f = Constant <value_string = "text"> ()
      h = Constant <value_strings = ["p", "q"]> ()
      i = other.Constant <value_int = 3> ()
      y = Relu (x)
    })")));
  const auto constant = [&](const char* name) { return *ValueOf(model.graph, name).constant; };
  CHECK(DataOf<int64_t>(constant("a")) == std::vector<int64_t>{3, 4});
  CHECK(DataOf<float>(constant("b")) == std::vector<float>{0.5f});
  CHECK(constant("b").rank() == 0);
  CHECK(DataOf<float>(constant("c")) == std::vector<float>{1, 2});
  CHECK(DataOf<int64_t>(constant("d")) == std::vector<int64_t>{-7});
  CHECK(constant("d").rank() == 0);
  CHECK(DataOf<int64_t>(constant("e")) == std::vector<int64_t>{1, 2, 3});
  CHECK(constant("f").strings()->at(0) == "text");
  CHECK(*constant("h").strings() == std::vector<std::string>{"p", "q"});
  CHECK_FALSE(ValueOf(model.graph, "i").constant);
  CHECK(ValueOf(model.graph, "e").dtype == DType::kInt64);
  CHECK(ValueOf(model.graph, "e").shape == ShapeOf(Dims{3}));
}

TEST_CASE("an initializer that is also an input is one value that is both") {
  const Folder folder;
  onnx::ModelProto proto = ProtoOfText(R"(<ir_version: 3, opset_import: ["" : 8]>
      g (float[N] x, float[2] w) => (float[N] y) { y = Mul (x, w) })");
  auto* t = AddInitializer(&proto, "w", onnx::TensorProto::FLOAT, {2});
  t->add_float_data(3);
  t->add_float_data(4);
  const Model model = Require(ReadProto(folder, proto));
  const Value& w = ValueOf(model.graph, "w");
  CHECK(w.is_input);
  CHECK(w.is_initializer);
  CHECK(DataOf<float>(*w.constant) == std::vector<float>{3, 4});
  CHECK(model.graph.main().inputs.size() == 2);
  CHECK(model.graph.main().initializers == std::vector<ValueId>{IdOf(model.graph, "w")});
  CHECK(w.uses.size() == 1);
}

TEST_CASE("bodies capture outer values, also through two levels; siblings may reuse names") {
  const Folder folder;
  const Model model = Require(ReadProto(folder, ProtoOfText(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool cond) => (float[2] y)
    <float[2] w = {1.0, 2.0}>
    {
      a = Relu (x)
      y = If (cond) <
        then_branch = t () => (float[2] r) {
          r = If (cond) <then_branch = tt () => (float[2] q) { q = Mul (a, w) }, else_branch = te () => (float[2] q) { q = Neg (w) }>
        },
        else_branch = e () => (float[2] r) { r = Add (a, w) }
      >
    })")));
  const Graph& graph = model.graph;
  REQUIRE(graph.region_count() == 5);
  CHECK(ValueOf(graph, "w").uses.size() == 3);
  CHECK(ValueOf(graph, "a").uses.size() == 2);
  CHECK(ValueOf(graph, "cond").uses.size() == 2);
  CHECK(graph.AllNodes().size() == 6);
  int named_q = 0, named_r = 0;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    named_q += graph.value(v).name == "q";
    named_r += graph.value(v).name == "r";
  }
  CHECK(named_q == 2);
  CHECK(named_r == 2);
  for (RegionId r = 1; r < graph.region_count(); ++r) {
    const Region& region = graph.region(r);
    REQUIRE(region.owner != kNoNode);
    CHECK(graph.node(region.owner).op_type == "If");
    CHECK(graph.node(region.owner).region == region.parent);
  }
}

TEST_CASE("nodes that come unsorted are sorted, sorted ones keep their order") {
  const Folder folder;
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool cond) => (float[2] y) )";
  const Model unsorted = Require(ReadProto(folder, ProtoOfText(head + R"({
      y = If (cond) <then_branch = t () => (float[2] r) { r = Exp (late) }, else_branch = e () => (float[2] s) { s = Neg (u)  u = Abs (x) }>
      late = Sqrt (b)
      b = Relu (x)
    })")));
  CHECK(Order(unsorted) == std::vector<std::string>{"Relu", "Sqrt", "If"});
  const Model sorted = Require(ReadProto(folder, ProtoOfText(head + R"({
      unused = Exp (x)
      b = Relu (x)
      c = Constant <value_int = 1> ()
      y = Neg (b)
      last = Abs (x)
    })")));
  CHECK(Order(sorted) == std::vector<std::string>{"Exp", "Relu", "Constant", "Neg", "Abs"});
}

TEST_CASE("large raw data stays in the file, small data is in memory") {
  const Folder folder;
  onnx::ModelProto proto = Plain();
  const std::string large(4000, 'L'), small(1020, 's');
  AddInitializer(&proto, "large", onnx::TensorProto::FLOAT, {1000})->set_raw_data(large);
  AddInitializer(&proto, "small", onnx::TensorProto::FLOAT, {255})->set_raw_data(small);
  const Model model = Require(ReadProto(folder, proto));
  const Tensor& stays = *ValueOf(model.graph, "large").constant;
  REQUIRE(stays.file_range() != nullptr);
  CHECK(stays.file_range()->file == model.sources.at(0));
  CHECK(BytesOf(folder / "read.onnx").substr(static_cast<size_t>(stays.file_range()->offset), 4000) == large);
  CHECK(stays.byte_size() == 4000);
  CHECK(ValueOf(model.graph, "small").constant->is_owned());
}

TEST_CASE("external data: offset, length, missing length, one file opened once") {
  const Folder folder;
  fs::create_directories(folder.path() / "sub");
  PutBytes(folder / "w.bin", std::string(4, 'x') + std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  PutBytes(folder / "sub/v.bin", std::string("\0\0\x40\x40", 4));
  onnx::ModelProto proto = Plain();
  using P = onnx::TensorProto;
  SetExternal(AddInitializer(&proto, "a", P::FLOAT, {1}), {{"location", "w.bin"}, {"offset", "4"}, {"length", "4"}});
  SetExternal(AddInitializer(&proto, "b", P::FLOAT, {2}), {{"location", "./w.bin"}, {"offset", "4"}});
  SetExternal(AddInitializer(&proto, "c", P::FLOAT, {}), {{"location", "sub/v.bin"}, {"checksum", "whatever"}});
  fs::create_symlink("w.bin", folder.path() / "link.bin");
  SetExternal(AddInitializer(&proto, "d", P::FLOAT, {3}), {{"location", "link.bin"}, {"length", "12"}});
  const Model model = Require(ReadProto(folder, proto));
  CHECK(DataOf<float>(*ValueOf(model.graph, "a").constant) == std::vector<float>{1});
  CHECK(DataOf<float>(*ValueOf(model.graph, "b").constant) == std::vector<float>{1, 2});
  CHECK(DataOf<float>(*ValueOf(model.graph, "c").constant) == std::vector<float>{3});
  CHECK(ValueOf(model.graph, "d").constant->byte_size() == 12);
  REQUIRE(model.sources.size() == 3);
  CHECK(model.sources[0]->path() == folder / "read.onnx");
  CHECK(fs::path(model.sources[1]->path()).filename() == "w.bin");
  CHECK(fs::path(model.sources[2]->path()).filename() == "v.bin");
}

TEST_CASE("a function has a graph of its own") {
  const Folder folder;
  const Model model = Require(ReadProto(folder, ProtoOfText(R"(
    <ir_version: 9, opset_import: ["" : 19, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.F <k = 2> (x) }
    <domain: "my", opset_import: ["" : 18]> F <k, m: int = 4> (a, b) => (c) { t = Constant <value_int: int = @k> ()  c = Relu (a) })")));
  REQUIRE(model.functions.size() == 1);
  const Function& f = model.functions[0];
  CHECK(f.domain == "my");
  CHECK(f.name == "F");
  CHECK(f.attributes == std::vector<std::string>{"k"});
  CHECK(f.opsets == std::vector<std::pair<std::string, int64_t>>{{"", 18}});
  CHECK(f.body.main().inputs.size() == 2);
  REQUIRE(f.body.main().nodes.size() == 2);
  const Node& constant = f.body.node(f.body.main().nodes[0]);
  CHECK(constant.attributes.list().at(0).ref_name == "k");
  CHECK_FALSE(f.body.value(constant.outputs[0]).constant);
  CHECK(model.OpsetOf("") == 19);
}

TEST_CASE("names that only value_info mentions are not given to new values") {
  const Folder folder;
  onnx::ModelProto proto = Plain();
  proto.mutable_graph()->add_value_info()->set_name("stray");
  Model model = Require(ReadProto(folder, proto));
  CHECK(model.graph.FreshName("stray") != "stray");
}

TEST_CASE("a tensor file") {
  const Folder folder;
  onnx::TensorProto t;
  t.set_name("input_0");
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(1000);
  t.set_raw_data(std::string(4000, '\0'));
  PutProto(folder / "input_0.pb", t);
  const auto [name, tensor] = Require(ReadTensorFile(folder / "input_0.pb"));
  CHECK(name == "input_0");
  CHECK(tensor.dims() == Dims{1000});
  CHECK(DataOf<float>(tensor) == std::vector<float>(1000, 0.0f));
  t.add_dims(3);
  PutProto(folder / "input_0.pb", t);
  CHECK(ReadTensorFile(folder / "input_0.pb").status().code() == absl::StatusCode::kDataLoss);
  PutBytes(folder / "input_0.pb", "no tensor at all");
  CHECK(ReadTensorFile(folder / "input_0.pb").status().code() == absl::StatusCode::kDataLoss);
}

}  // namespace quant
