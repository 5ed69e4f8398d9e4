// What tests of reading and writing share: a folder of their own, protos from text, and the comparison of two model
// files field by field after their layout (where tensors keep their bytes, the order of value_info) is made the same.
#pragma once

#include <google/protobuf/util/message_differencer.h>
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "libquant/model/onnx_version.h"
#include "libquant/model/read.h"
#include "libquant/model/write.h"
#include "tests/catch.h"

namespace quant {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    static std::atomic<int> counter{0};
    path_ = fs::temp_directory_path() / fmt::format("nibble-model-test-{}-{}", getpid(), counter++);
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }
  // Names of the files in it, sorted.
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(path_)) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  fs::path path_;
};

inline std::string BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void PutBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline void PutProto(const std::string& path, const google::protobuf::Message& proto) {
  PutBytes(path, proto.SerializeAsString());
}

inline onnx::ModelProto ProtoOfText(const std::string& text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  return proto;
}

// Reads a proto back through a file.
inline StatusOr<Model> ReadProto(const Folder& folder, const onnx::ModelProto& proto) {
  const std::string path = folder / "read.onnx";
  PutProto(path, proto);
  return ReadModel(path);
}

template <typename T>
T Require(StatusOr<T> value) {
  INFO((value.ok() ? std::string() : Message(value.status())));
  REQUIRE(value.ok());
  return *std::move(value);
}

inline std::string ErrorOf(const Status& status) { return status.ok() ? "no error" : Message(status); }

// Calls `visit` with every message of type T inside `message`, itself included.
template <typename T>
void ForEach(google::protobuf::Message* message, const std::function<void(T*)>& visit) {
  if (message->GetDescriptor() == T::descriptor()) visit(static_cast<T*>(message));
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const auto* reflection = message->GetReflection();
  reflection->ListFields(*message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      ForEach<T>(reflection->MutableMessage(message, field), visit);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      ForEach<T>(reflection->MutableRepeatedMessage(message, field, i), visit);
    }
  }
}

// The bytes of a tensor wherever its proto keeps them, decoded apart from the reader under test.
inline std::string RawOf(const onnx::TensorProto& t, const fs::path& folder) {
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    std::string location;
    size_t offset = 0, length = std::string::npos;
    for (const auto& entry : t.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = std::stoull(entry.value());
      if (entry.key() == "length") length = std::stoull(entry.value());
    }
    return BytesOf((folder / location).string()).substr(offset, length);
  }
  std::string out = t.raw_data();
  const auto append = [&](const auto& field, size_t bytes) {
    for (const auto entry : field) out.append(reinterpret_cast<const char*>(&entry), bytes);
  };
  append(t.float_data(), 4);
  append(t.double_data(), 8);
  append(t.int64_data(), 8);
  append(t.uint64_data(), t.data_type() == onnx::TensorProto::UINT32 ? 4 : 8);
  size_t width = 1;
  if (t.data_type() == onnx::TensorProto::INT32) width = 4;
  for (const int two :
       {onnx::TensorProto::INT16, onnx::TensorProto::UINT16, onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16}) {
    if (t.data_type() == two) width = 2;
  }
  append(t.int32_data(), width);
  return out;
}

inline void NormalizeLayout(onnx::ModelProto* model, const fs::path& folder) {
  ForEach<onnx::TensorProto>(model, [&](onnx::TensorProto* t) {
    if (t->data_type() == onnx::TensorProto::STRING) return;
    std::string raw = RawOf(*t, folder);
    t->clear_float_data();
    t->clear_double_data();
    t->clear_int64_data();
    t->clear_uint64_data();
    t->clear_int32_data();
    t->clear_external_data();
    t->clear_data_location();
    t->clear_raw_data();
    if (!raw.empty()) t->set_raw_data(std::move(raw));
  });
  ForEach<onnx::GraphProto>(model, [](onnx::GraphProto* g) {
    std::stable_sort(g->mutable_value_info()->begin(), g->mutable_value_info()->end(),
                     [](const auto& a, const auto& b) { return a.name() < b.name(); });
  });
}

// The first differences of two models whose external data is in `folder`, layout aside; empty when there are none. A
// field set to its default equals one that is not set.
inline std::string DifferencesOf(onnx::ModelProto a, onnx::ModelProto b, const fs::path& folder) {
  NormalizeLayout(&a, folder);
  NormalizeLayout(&b, folder);
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  std::string report;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(a, b)) return "";
  return "different: " + report.substr(0, 2000);
}

// The same for files.
inline std::string DifferencesOf(const std::string& path_a, const std::string& path_b) {
  onnx::ModelProto a, b;
  REQUIRE(a.ParseFromString(BytesOf(path_a)));
  REQUIRE(b.ParseFromString(BytesOf(path_b)));
  NormalizeLayout(&a, fs::path(path_a).parent_path());
  return DifferencesOf(std::move(a), std::move(b), fs::path(path_b).parent_path());
}

}  // namespace quant
