#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "libquant/base/byte_text.h"
#include "libquant/lint/rules.h"

namespace quant {
namespace {

constexpr int64_t kProtobufLimit = (int64_t{1} << 31) - 1;
// Less than this is alignment and tables.
constexpr int64_t kUnusedBytes = 1 << 20;

using Ranges = std::map<std::string, std::set<std::pair<int64_t, int64_t>>>;  // path -> begin, end

void AddRanges(const Graph& graph, Ranges& ranges) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    const FileRange* range = value.removed || !value.constant ? nullptr : value.constant->file_range();
    if (range != nullptr) ranges[range->file->path()].insert({range->offset, range->offset + range->length});
  }
}

int64_t Covered(const std::set<std::pair<int64_t, int64_t>>& ranges) {
  int64_t covered = 0, at = 0;
  for (const auto& [begin, end] : ranges) {
    covered += std::max<int64_t>(end - std::max(begin, at), 0);
    at = std::max(at, end);
  }
  return covered;
}

// A data file, seen from the model's folder.
std::string NameBeside(const File& model, const File& data) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::canonical(model.path(), error).parent_path();
  const fs::path name = error ? fs::path() : fs::relative(data.path(), folder, error);
  return name.empty() ? data.path() : name.string();
}

}  // namespace

void LintFiles(const Model& model, std::vector<Finding>& out) {
  if (model.sources.empty()) return;
  const int64_t model_bytes = model.sources[0]->size();
  if (model_bytes > kProtobufLimit) {
    out.push_back(Finding::Of(FindingId::kDataLimit, "the model's file has " + Bytes(model_bytes)));
  }
  Ranges ranges;
  AddRanges(model.graph, ranges);
  for (const Function& function : model.functions) AddRanges(function.body, ranges);
  int64_t total = model_bytes, external = 0;
  std::vector<std::string> files, stale;
  for (size_t i = 1; i < model.sources.size(); ++i) {
    const File& file = *model.sources[i];
    external += file.size();
    files.push_back(NameBeside(*model.sources[0], file));
    const int64_t unused = file.size() - Covered(ranges[file.path()]);
    if (unused > kUnusedBytes && unused > file.size() / 10)
      stale.push_back(fmt::format("{}: {}", files.back(), Bytes(unused)));
  }
  total += external;
  if (!stale.empty()) {
    out.push_back(Finding::Of(FindingId::kDataUnusedBytes,
                              Count(stale.size(), "external data file") + " mostly or partly unused", stale));
  }
  if (!files.empty()) {
    out.push_back(Finding::Of(FindingId::kDataExternal,
                              fmt::format("{} of weights in {}", Bytes(external), Count(files.size(), "file")), files));
  }
  if (total > kProtobufLimit) out.push_back(Finding::Of(FindingId::kDataLarge, Bytes(total) + " in all files"));
}

}  // namespace quant
