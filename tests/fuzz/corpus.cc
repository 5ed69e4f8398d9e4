#include "tests/fuzz/corpus.h"

#include <fmt/format.h>
#include <onnx/defs/parser.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "libquant/model/onnx_version.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestFile = size_t{64} << 10;
constexpr size_t kLargestConstant = 4096;

std::string BytesOf(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool IsReal(int dtype) {
  using P = onnx::TensorProto;
  return dtype == P::FLOAT || dtype == P::DOUBLE || dtype == P::FLOAT16 || dtype == P::BFLOAT16;
}

// The model with stored inputs as initializers; nothing when none can be one.
std::optional<std::string> WithStoredInputs(const std::string& bytes, const fs::path& data) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return std::nullopt;
  onnx::GraphProto& graph = *model.mutable_graph();
  bool any = false;
  const auto inputs = graph.input();
  graph.clear_input();
  for (int i = 0; i < inputs.size(); ++i) {
    onnx::TensorProto tensor;
    const fs::path file = data / fmt::format("input_{}.pb", i);
    const bool stored = inputs[i].type().has_tensor_type() && fs::exists(file) &&
                        tensor.ParseFromString(BytesOf(file)) && !IsReal(tensor.data_type()) &&
                        tensor.ByteSizeLong() < kLargestConstant;
    if (!stored) {
      *graph.add_input() = inputs[i];
      continue;
    }
    tensor.set_name(inputs[i].name());
    *graph.add_initializer() = tensor;
    any = true;
  }
  return any ? std::optional(model.SerializeAsString()) : std::nullopt;
}

void AddModel(const fs::path& path, std::vector<CorpusEntry>& out) {
  std::string bytes = BytesOf(path);
  if (bytes.size() > kLargestFile) return;
  std::optional<std::string> constant = WithStoredInputs(bytes, path.parent_path() / "test_data_set_0");
  out.push_back({path.string(), std::move(bytes)});
  if (constant) out.push_back({path.string() + ", inputs stored", *std::move(constant)});
}

void AddText(const std::string& name, const std::string& text, std::vector<CorpusEntry>& out) {
  const bool expectation = name.find("# EXPECT") != std::string::npos;  // of tests/passes: may be abridged
  if (expectation || text.find("ir_version") == std::string::npos) return;
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) throw std::runtime_error(name + ": " + status.ErrorMessage());
  out.push_back({name, model.SerializeAsString()});
}

// The model once for each value that $V stands for, or once.
void AddEach(const std::string& name, const std::string& text, const std::vector<std::string>& values,
             std::vector<CorpusEntry>& out) {
  if (text.find("$V") == std::string::npos) return AddText(name, text, out);
  for (const std::string& value : values) {
    std::string filled = text;
    for (size_t at = 0; (at = filled.find("$V", at)) != std::string::npos;) filled.replace(at, 2, value);
    AddText(fmt::format("{}, {}", name, value), filled, out);
  }
}

void AddTexts(const fs::path& path, std::vector<CorpusEntry>& out) {
  const std::string each = "# EACH ";
  std::ifstream in(path);
  std::string text;
  std::string name = path.string();
  std::vector<std::string> values;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] != '#') {
      text += line + "\n";
      continue;
    }
    AddEach(name, text, values, out);
    text.clear();
    name = path.string() + line;
    if (line.rfind(each, 0) != 0) continue;
    std::istringstream words(line.substr(each.size()));
    values.assign(std::istream_iterator<std::string>(words), {});
  }
  AddEach(name, text, values, out);
}

}  // namespace

std::vector<CorpusEntry> LoadCorpus(const std::vector<std::string>& paths) {
  std::vector<CorpusEntry> out;
  for (const std::string& path : paths) {
    std::vector<fs::path> files;
    if (fs::is_directory(path)) {
      for (const auto& entry : fs::recursive_directory_iterator(path)) files.push_back(entry.path());
    } else {
      files.emplace_back(path);
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      if (file.extension() == ".onnx") AddModel(file, out);
      if (file.extension() == ".txt") AddTexts(file, out);
    }
  }
  return out;
}

}  // namespace quant
