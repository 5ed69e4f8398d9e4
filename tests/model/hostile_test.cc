// Files that are no sound model end in a sentence and exit code 3 (4 when they are merely too new), never in a crash.
#include <random>

#include "tests/model/model_fixture.h"

namespace quant {
namespace {

using P = onnx::TensorProto;

// Every file may be anything: what counts is that reading returns.
void CheckSurvives(const Folder& folder, const std::string& bytes) {
  PutBytes(folder / "bad.onnx", bytes);
  const auto model = ReadModel(folder / "bad.onnx");
  if (model.ok()) return;
  const int code = ExitCode(model.status());
  INFO(Message(model.status()));
  REQUIRE((code == 3 || code == 4));
  REQUIRE(Message(model.status()).find("bad.onnx") != std::string::npos);
}

// The error of a proto, which must have the exit code and hold the words.
void CheckRefused(const onnx::ModelProto& proto, const std::string& words, int code = 3) {
  const Folder folder;
  const auto model = ReadProto(folder, proto);
  INFO(ErrorOf(model.status()));
  CHECK(ExitCode(model.status()) == code);
  CHECK(ErrorOf(model.status()).find(words) != std::string::npos);
  CHECK(ErrorOf(model.status()).find("read.onnx") != std::string::npos);
}

void CheckRefused(const std::string& bytes, const std::string& words) {
  const Folder folder;
  PutBytes(folder / "bad.onnx", bytes);
  const auto model = ReadModel(folder / "bad.onnx");
  INFO(ErrorOf(model.status()));
  CHECK(ExitCode(model.status()) == 3);
  CHECK(ErrorOf(model.status()).find(words) != std::string::npos);
  CHECK(ErrorOf(model.status()).find("bad.onnx") != std::string::npos);
}

onnx::ModelProto Plain() {
  return ProtoOfText(R"(<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Relu (x) })");
}

P* AddWeight(onnx::ModelProto* model, const std::vector<int64_t>& dims, int dtype = P::FLOAT) {
  auto* t = model->mutable_graph()->add_initializer();
  t->set_name("w");
  t->set_data_type(dtype);
  for (int64_t d : dims) t->add_dims(d);
  return t;
}

// A model with everything that a walk looks into: inline and large tensors, bodies, functions, typed fields.
std::string Victim() {
  onnx::ModelProto proto = ProtoOfText(R"(
    <ir_version: 10, opset_import: ["" : 21, "my" : 1], metadata_props: ["k": "v"]>
    g (float[N, 4] x, bool cond) => (float[N, 4] y) <float[4, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}>
    {
      m = MatMul (x, w)
      f = my.F <k = 1.5> (m)
      y = If (cond) <
        then_branch = t () => (float[N, 4] r) { c = Constant <value = float[2] {1.0, 2.0}> ()  r = Add (f, big) },
        else_branch = e () => (float[N, 4] r) { r = Neg (f) }
      >
    }
    <domain: "my", opset_import: ["" : 21]> F <k> (a) => (b) { s = Constant <value_float: float = @k> ()  b = Mul (a, s) })");
  auto* big = proto.mutable_graph()->add_initializer();
  big->set_name("big");
  big->set_data_type(P::FLOAT);
  big->add_dims(300);
  big->set_raw_data(std::string(1200, 'b'));
  return proto.SerializeAsString();
}

}  // namespace

TEST_CASE("files that are no model say what they are") {
  CheckRefused("", "empty");
  CheckRefused("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull");
  CheckRefused(std::string(4096, '\0'), "damaged at byte 0");
  CheckRefused("<!DOCTYPE html><html><body>404 Not Found</body></html>", "no ONNX model");
  onnx::TensorProto tensor;
  tensor.set_name("a tensor, not a model");
  CheckRefused(tensor.SerializeAsString(), "no ONNX model");
  const Folder folder;
  CHECK(ExitCode(ReadModel(folder.path().string()).status()) == 3);
  CHECK(ExitCode(ReadModel(folder / "not there.onnx").status()) == 3);
}

TEST_CASE("a file cut anywhere, with flipped bits, or of noise is refused or read, never more") {
  const Folder folder;
  const std::string victim = Victim();
  PutBytes(folder / "bad.onnx", victim);
  Require(ReadModel(folder / "bad.onnx"));
  for (size_t length = 0; length < victim.size(); length += (length < 1500 ? 1 : 7)) {
    INFO("cut at " << length);
    CheckSurvives(folder, victim.substr(0, length));
  }
  std::mt19937 random(20240607);
  for (int round = 0; round < 3000; ++round) {
    INFO("round " << round);
    std::string bytes = victim;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
    }
    CheckSurvives(folder, bytes);
  }
  for (int round = 0; round < 200; ++round) {
    std::string noise(4096, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    CheckSurvives(folder, noise);
  }
}

TEST_CASE("a real model cut at many places is refused") {
  const fs::path model = fs::path(NIBBLE_SHARED_MODELS) / "mnist.onnx";
  if (!fs::exists(model)) {
    WARN("not run: no real model at " NIBBLE_SHARED_MODELS "/mnist.onnx");
    return;
  }
  const std::string bytes = BytesOf(model.string());
  const Folder folder;
  for (size_t length = 0; length < bytes.size(); length += 61) {
    INFO("cut at " << length);
    PutBytes(folder / "bad.onnx", bytes.substr(0, length));
    REQUIRE(ExitCode(ReadModel(folder / "bad.onnx").status()) == 3);
  }
}

TEST_CASE("sizes that disagree, are negative, or overflow") {
  onnx::ModelProto proto = Plain();
  SECTION("raw data too short") {
    AddWeight(&proto, {3})->set_raw_data("12345678");
    CheckRefused(proto, "initializer 'w': its raw data has 8 bytes where float32[3] takes 12");
  }
  SECTION("large raw data too long") {
    AddWeight(&proto, {300})->set_raw_data(std::string(1204, 'x'));
    CheckRefused(proto, "1204 bytes where float32[300] takes 1200");
  }
  SECTION("typed entries too few") {
    AddWeight(&proto, {3})->add_float_data(1);
    CheckRefused(proto, "1 entries where float32[3] takes 3");
  }
  SECTION("data in the wrong field") {
    AddWeight(&proto, {1})->add_int64_data(1);
    CheckRefused(proto, "no data");
  }
  SECTION("no data") {
    AddWeight(&proto, {3});
    CheckRefused(proto, "no data");
  }
  SECTION("two forms of data") {
    auto* w = AddWeight(&proto, {1});
    w->set_raw_data("1234");
    w->add_float_data(1);
    CheckRefused(proto, "more than one form");
  }
  SECTION("negative") {
    AddWeight(&proto, {2, -1})->set_raw_data("1234");
    CheckRefused(proto, "2x-1");
  }
  SECTION("overflow of the product") {
    AddWeight(&proto, {int64_t{1} << 40, int64_t{1} << 40})->set_raw_data("1234");
    CheckRefused(proto, "too large");
  }
  SECTION("overflow of the bytes") {
    AddWeight(&proto, {int64_t{1} << 62})->set_raw_data("1234");
    CheckRefused(proto, "too large");
  }
  SECTION("strings") {
    AddWeight(&proto, {2}, P::STRING)->add_string_data("one");
    CheckRefused(proto, "1 strings");
  }
  SECTION("a type from the future") {
    AddWeight(&proto, {2}, 99)->set_raw_data("12");
    CheckRefused(proto, "element type 99", 4);
  }
  SECTION("no type") {
    AddWeight(&proto, {2}, 0)->set_raw_data("12");
    CheckRefused(proto, "no element type");
  }
}

TEST_CASE("names that are defined twice, nowhere, or in a circle") {
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17, "d" : 1]> g (float[2] x) => (float[2] y) )";
  CheckRefused(ProtoOfText(head + "{ y = Relu (x)  y = Neg (x) }"), "'y' is defined twice");
  CheckRefused(ProtoOfText(head + "{ y = Relu (x)  x = Neg (y) }"), "'x' is defined twice");
  CheckRefused(ProtoOfText(head + "{ y = Relu (nowhere) }"), "reads 'nowhere'");
  CheckRefused(ProtoOfText(head + "{ z = Relu (x) }"), "graph output 'y' is made by no node");
  CheckRefused(ProtoOfText(head + "{ y = Add (x, b)  b = Neg (c)  c = Exp (b) }"), "cycle");
  CheckRefused(ProtoOfText(head + "{ y = Add (x, y) }"), "cycle");
  // A body's values are not seen outside of it, nor by its sibling.
  CheckRefused(ProtoOfText(head + R"({
      c = Constant <value_int = 1> ()
      z = If (c) <then_branch = t () => (float[2] a) { a = Relu (x) }, else_branch = e () => (float[2] b) { b = Neg (a) }>
      y = Relu (z) })"),
               "reads 'a'");
  onnx::ModelProto twice = Plain();
  AddWeight(&twice, {1})->set_raw_data("1234");
  AddWeight(&twice, {1})->set_raw_data("1234");
  CheckRefused(twice, "'w' is defined twice");
  onnx::ModelProto nameless = Plain();
  AddWeight(&nameless, {1})->set_raw_data("1234");
  nameless.mutable_graph()->mutable_initializer(0)->clear_name();
  CheckRefused(nameless, "no name");
}

TEST_CASE("nodes and attributes that say nothing or two things") {
  onnx::ModelProto proto = Plain();
  auto* node = proto.mutable_graph()->mutable_node(0);
  SECTION("no operator") {
    node->clear_op_type();
    CheckRefused(proto, "no operator type");
  }
  SECTION("two attributes of a name") {
    for (int i = 0; i < 2; ++i) {
      auto* a = node->add_attribute();
      a->set_name("axis");
      a->set_type(onnx::AttributeProto::INT);
      a->set_i(i);
    }
    CheckRefused(proto, "two attributes 'axis'");
  }
  SECTION("another value than it says") {
    auto* a = node->add_attribute();
    a->set_name("axis");
    a->set_type(onnx::AttributeProto::INT);
    a->set_f(1);
    CheckRefused(proto, "attribute axis");
  }
  SECTION("no graph in it") {
    auto* a = node->add_attribute();
    a->set_name("body");
    a->set_type(onnx::AttributeProto::GRAPH);
    CheckRefused(proto, "no value");
  }
}

TEST_CASE("bodies nested deeper than any real model") {
  // The walk over large messages and the walk over parsed ones both have to stop.
  for (const size_t padding : {size_t{0}, size_t{2000}}) {
    for (const int depth : {60, 70, 3000}) {
      onnx::GraphProto graph;
      graph.set_doc_string(std::string(padding, 'x'));
      std::string inner = graph.SerializeAsString();
      for (int i = 0; i < depth; ++i) {
        onnx::NodeProto node;
        node.set_op_type("Loop");
        auto* attribute = node.add_attribute();
        attribute->set_name("body");
        attribute->set_type(onnx::AttributeProto::GRAPH);
        std::string attribute_bytes = attribute->SerializeAsString();
        node.clear_attribute();
        const auto wrap = [](int field, const std::string& bytes) {
          std::string out;
          google::protobuf::io::StringOutputStream raw(&out);
          google::protobuf::io::CodedOutputStream coded(&raw);
          coded.WriteTag(static_cast<uint32_t>(field << 3 | 2));
          coded.WriteVarint32(static_cast<uint32_t>(bytes.size()));
          coded.WriteString(bytes);
          coded.Trim();
          return out;
        };
        inner = wrap(1, node.SerializeAsString() + wrap(5, attribute_bytes + wrap(6, inner)));
      }
      onnx::ModelProto proto;
      proto.set_ir_version(8);
      proto.add_opset_import()->set_version(17);
      std::string bytes = proto.SerializeAsString();
      std::string graph_field = "\x3a";
      for (size_t n = inner.size(); true; n >>= 7) {
        graph_field.push_back(static_cast<char>((n & 0x7f) | (n >= 0x80 ? 0x80 : 0)));
        if (n < 0x80) break;
      }
      const Folder folder;
      PutBytes(folder / "deep.onnx", bytes + graph_field + inner);
      const Status status = ReadModel(folder / "deep.onnx").status();
      INFO(depth << " deep, " << padding << ": " << ErrorOf(status));
      CHECK(ExitCode(status) == (depth == 60 ? 0 : 3));
    }
  }
}

TEST_CASE("versions that we don't know yet, and none at all") {
  onnx::ModelProto proto = Plain();
  SECTION("opset") {
    proto.mutable_opset_import(0)->set_version(1000);
    CheckRefused(proto, "opset 1000 is newer than", 4);
  }
  SECTION("a function's opset") {
    auto* f = proto.add_functions();
    f->set_name("F");
    f->set_domain("d");
    f->add_opset_import()->set_version(1000);
    CheckRefused(proto, "opset 1000 is newer than", 4);
  }
  SECTION("IR version") {
    proto.set_ir_version(1000);
    CheckRefused(proto, "IR version 1000 is newer than", 4);
  }
  SECTION("no IR version") {
    proto.clear_ir_version();
    CheckRefused(proto, "no IR version");
  }
  SECTION("no graph") {
    proto.clear_graph();
    CheckRefused(proto, "no graph");
  }
  SECTION("no opset") {
    proto.clear_opset_import();
    CheckRefused(proto, "imports no opset");
  }
}

TEST_CASE("functions that call themselves, come twice, or lack an output") {
  const std::string head = R"(<ir_version: 9, opset_import: ["" : 19, "d" : 1]>
      g (float[2] x) => (float[2] y) { y = d.A (x) } )";
  const auto function = [](const std::string& name, const std::string& body) {
    return R"(<domain: "d", opset_import: ["" : 19, "d" : 1]> )" + name + " (a) => (b) { " + body + " }\n";
  };
  CheckRefused(ProtoOfText(head + function("A", "b = d.A (a)")), "calls itself");
  CheckRefused(ProtoOfText(head + function("A", "b = d.B (a)") + function("B", "b = d.A (a)")), "calls itself");
  CheckRefused(ProtoOfText(head + function("A", "b = Relu (a)") + function("A", "b = Neg (a)")), "defined twice");
  CheckRefused(ProtoOfText(head + function("A", "c = Relu (a)")), "function d.A: its output 'b'");
}

TEST_CASE("external data that is missing, too short, of the wrong size, or outside the folder") {
  const Folder folder;
  fs::create_directories(folder.path() / "model/sub");
  PutBytes(folder / "model/w.bin", std::string(16, 'w'));
  PutBytes(folder / "secret.bin", std::string(16, 's'));
  fs::create_symlink("../secret.bin", folder.path() / "model/link.bin");
  fs::create_symlink("..", folder.path() / "model/up");
  const auto check = [&](const std::vector<std::pair<std::string, std::string>>& entries, const std::string& words) {
    onnx::ModelProto proto = Plain();
    auto* w = AddWeight(&proto, {4});
    w->set_data_location(P::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = w->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    PutProto(folder / "model/m.onnx", proto);
    const Status status = ReadModel(folder / "model/m.onnx").status();
    INFO(ErrorOf(status));
    CHECK(ExitCode(status) == 3);
    CHECK(ErrorOf(status).find(words) != std::string::npos);
    CHECK(ErrorOf(status).find("initializer 'w'") != std::string::npos);
  };
  check({{"location", "none.bin"}}, "none.bin");
  check({}, "no location");
  check({{"location", "../secret.bin"}}, "outside the model's folder");
  check({{"location", "sub/../../secret.bin"}}, "outside the model's folder");
  check({{"location", folder / "secret.bin"}}, "outside the model's folder");
  check({{"location", "link.bin"}}, "leaves the model's folder");
  check({{"location", "up/secret.bin"}}, "leaves the model's folder");
  check({{"location", "sub"}}, "a folder, not a file");
  check({{"location", std::string("w.bin\0.png", 10)}}, "zero byte");
  check({{"location", "w.bin"}, {"offset", "4"}, {"length", "16"}}, "has only 16");
  check({{"location", "w.bin"}, {"offset", "17"}}, "has only 16");
  check({{"location", "w.bin"}, {"offset", "9223372036854775807"}, {"length", "16"}}, "has only 16");
  check({{"location", "w.bin"}, {"offset", "99999999999999999999"}}, "which is no size");
  check({{"location", "w.bin"}, {"offset", "-4"}}, "which is no size");
  check({{"location", "w.bin"}, {"length", "16 bytes"}}, "which is no size");
  check({{"location", "w.bin"}, {"length", "12"}}, "12 bytes where float32[4] takes 16");
  check({{"location", "w.bin"}, {"offset", "8"}}, "8 bytes where float32[4] takes 16");
}

}  // namespace quant
