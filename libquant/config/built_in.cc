#include "libquant/config/built_in.h"

#include <array>
#include <utility>

namespace quant {
namespace {

// Path below configs/ and text, sorted by path.
constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
#include "built_in_configs.inc"
};

}  // namespace

std::vector<std::string> BuiltInNames(std::string_view folder) {
  std::vector<std::string> out;
  for (const auto& [path, text] : kFiles) {
    if (path.substr(0, folder.size()) != folder) continue;
    out.emplace_back(path.substr(folder.size(), path.size() - folder.size() - std::string_view(".yaml").size()));
  }
  return out;
}

std::optional<std::string_view> BuiltInText(std::string_view folder, std::string_view name) {
  const std::string wanted = std::string(folder) + std::string(name) + ".yaml";
  for (const auto& [path, text] : kFiles) {
    if (path == wanted) return text;
  }
  return std::nullopt;
}

}  // namespace quant
