#include "passes/pipeline.h"

#include "libquant/base/file.h"
#include "libquant/config/built_in.h"
#include "libquant/config/pipeline_file.h"

namespace quant {
namespace {

constexpr std::string_view kFolder = "pipelines/";
constexpr int kDeepest = 8;
constexpr int64_t kLongest = int64_t{1} << 20;

StatusOr<std::string> TextOf(const std::string& name) {
  if (name.size() > 5 && name.substr(name.size() - 5) == ".yaml") return ReadTextFile(name, kLongest);
  if (const auto text = BuiltInText(kFolder, name)) return std::string(*text);
  return UsageError("there is no pipeline '{}'; there are {}, or give a file NAME.yaml", name,
                    fmt::join(PipelineNames(), ", "));
}

}  // namespace

StatusOr<std::vector<const Pass*>> PassesNamed(const std::vector<std::string>& names) {
  std::vector<const Pass*> out;
  for (const std::string& name : names) {
    out.push_back(FindPass(name));
    if (out.back() != nullptr) continue;
    std::vector<std::string_view> known;
    for (const Pass* pass : AllPasses()) known.push_back(pass->name);
    return UsageError("there is no pass '{}'; there are {}", name, fmt::join(known, ", "));
  }
  return out;
}

namespace {

StatusOr<std::vector<const Pass*>> Read(const std::string& name, int depth) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(name));
  ASSIGN_OR_RETURN(const PipelineFile file, ReadPipelineText(text, name));
  std::vector<const Pass*> out;
  if (!file.extends.empty()) {
    if (depth == kDeepest) return UsageError("{}: pipelines extend one another more than {} deep", name, kDeepest);
    ASSIGN_OR_RETURN(out, Read(file.extends, depth + 1));
  }
  const auto passes = PassesNamed(file.passes);
  if (!passes.ok()) return WithContext(passes.status(), name);
  out.insert(out.end(), passes->begin(), passes->end());
  return out;
}

}  // namespace

StatusOr<std::vector<const Pass*>> ReadPipeline(const std::string& name) { return Read(name, 0); }

std::vector<std::string> PipelineNames() { return BuiltInNames(kFolder); }

}  // namespace quant
