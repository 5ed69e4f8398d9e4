#include "tools/dump.h"

#include <cctype>
#include <filesystem>
#include <system_error>

#include "libquant/base/file.h"
#include "libquant/data/npy.h"
#include "passes/quant/name_patterns.h"
#include "tools/tensor_stats.h"
#include "tools/units.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 80;

// A name from a model as a part of a file name: what could leave the folder or trouble a shell becomes "_".
std::string FileNameOf(const std::string& name) {
  std::string out;
  for (const char c : name.substr(0, kLongestName)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    out += plain ? c : '_';
  }
  return out;
}

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? OutputError("{}: the folder can't be made: {}", folder, error.message()) : OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Dump>> Dump::Open(const Graph& graph, const std::string& folder,
                                           const std::vector<std::string>& patterns) {
  ASSIGN_OR_RETURN(NamePatterns compiled, NamePatterns::Compile("--dump", patterns));
  std::unique_ptr<Dump> dump(new Dump(folder));
  std::vector<std::string> names;
  for (NodeId n : graph.AllNodes()) {
    for (ValueId v : graph.node(n).outputs) {
      if (v == kNoValue) continue;
      names.push_back(graph.value(v).name);
      if (compiled.Match({names.back(), graph.node(n).name}) != nullptr) dump->chosen_.insert(names.back());
    }
  }
  RETURN_IF_ERROR(compiled.CheckAllMatched("tensor that the model makes and no node that makes one", "tensors", names));
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error))) {
    return OutputError("{}: it is there already; tensors are dumped to a new or an empty folder", folder);
  }
  RETURN_IF_ERROR(MakeFolder(folder));
  return dump;
}

Status Dump::BeginSample(int64_t sample) {
  sample_folder_ = fmt::format("{}/sample_{}", folder_, sample);
  index_ = "file\tname\tdtype\tdims\tmin\tmax\tmean\n";
  in_sample_ = 0;
  return MakeFolder(sample_folder_);
}

Status Dump::Write(const std::string& name, const Tensor& tensor) {
  const std::string file = fmt::format("{:04}_{}.npy", in_sample_++, FileNameOf(name));
  made_.insert(name);
  TensorStats stats;
  stats.Add(tensor);
  index_ += fmt::format("{}\t{}\t{}\t{}\t", file, Printable(name), NameOf(tensor.dtype()), ToString(tensor.dims()));
  index_ += stats.any() ? fmt::format("{}\t{}\t{}\n", Real(stats.min), Real(stats.max), Real(stats.mean())) : "\t\t\n";
  ++files_;
  return WriteNpy(sample_folder_ + "/" + file, tensor);
}

Status Dump::EndSample() { return WriteFileAtomically(sample_folder_ + "/index.tsv", index_); }

}  // namespace quant
