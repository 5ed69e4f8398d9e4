#include "libquant/config/sweep_grid.h"

#include <algorithm>
#include <charconv>

#include "libquant/base/file.h"
#include "libquant/config/quantize_entry.h"
#include "libquant/config/yaml_text.h"
#include "libquant/numerics/format.h"

namespace quant {
namespace {

constexpr int64_t kLongest = int64_t{1} << 20;

std::vector<std::string>& AxisOf(SweepGrid& grid, std::string_view key) {
  return key == "weights" ? grid.weights : key == "scheme" ? grid.schemes : grid.group_sizes;
}

int64_t PlaceOfFormat(const std::string& name) {
  const auto formats = AllFormats();
  return std::find_if(formats.begin(), formats.end(), [&](const Format& f) { return f.name == name; }) -
         formats.begin();
}

// Numbers first, by size.
int64_t PlaceOfGroup(const std::string& word) {
  if (word == "channel") return INT64_MAX - 1;
  if (word == "tensor") return INT64_MAX;
  int64_t size = 0;
  std::from_chars(word.data(), word.data() + word.size(), size);
  return size;
}

void Arrange(std::vector<std::string>& words, int64_t (*place)(const std::string&)) {
  std::stable_sort(words.begin(), words.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  words.erase(std::unique(words.begin(), words.end()), words.end());
}

Status ReadAxis(const YamlText& yaml, const std::string& key, const YAML::Node& value, SweepGrid& grid) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, yaml.Words(key, value));
  if (words.empty()) return UsageError("{}: {} is empty", yaml.Place(value), key);
  AxisOf(grid, key).clear();
  for (const std::string& word : words) RETURN_IF_ERROR(yaml.At(value, AddSweepWord(grid, key, word)));
  return OkStatus();
}

Status ReadSkipSets(const YamlText& yaml, const YAML::Node& node, SweepGrid& grid) {
  if (!node.IsMap()) return UsageError("{}: skip-sets maps names to lists of patterns", yaml.Place(node));
  for (const auto& entry : node) {
    ASSIGN_OR_RETURN(const std::string name, yaml.Scalar("skip-sets", entry.first));
    ASSIGN_OR_RETURN(std::vector<std::string> patterns, yaml.Words(name, entry.second));
    RETURN_IF_ERROR(yaml.At(entry.first, AddSkipSet(grid, {name, std::move(patterns)})));
  }
  return OkStatus();
}

}  // namespace

bool IsSweepAxis(std::string_view key) { return key == "weights" || key == "group-size" || key == "scheme"; }

Status AddSweepWord(SweepGrid& grid, std::string_view key, const std::string& word) {
  WeightFormat scratch;
  RETURN_IF_ERROR(SetFormatOption(scratch, key, word));
  // "032" is 32.
  const bool number = key == "group-size" && scratch.granularity == Granularity::kGroup;
  AxisOf(grid, key).push_back(number ? std::to_string(scratch.group_size) : word);
  return OkStatus();
}

Status AddSkipSet(SweepGrid& grid, SkipSet set) {
  const bool plain = !set.name.empty() && std::all_of(set.name.begin(), set.name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
  if (!plain) return UsageError("a skip set's name is letters, digits, '_', '-' and '.', not '{}'", set.name);
  for (const SkipSet& known : grid.skip_sets) {
    if (known.name == set.name) return UsageError("the skip set '{}' is given twice", set.name);
  }
  if (set.name == "none" && !set.patterns.empty()) return UsageError("the skip set 'none' skips nothing");
  if (set.name != "none" && set.patterns.empty()) return UsageError("the skip set '{}' has no pattern", set.name);
  grid.skip_sets.push_back(std::move(set));
  return OkStatus();
}

void FinishSweepGrid(SweepGrid& grid) {
  if (grid.weights.empty()) grid.weights = {"int4", "int8"};
  if (grid.group_sizes.empty()) grid.group_sizes = {"32", "64", "128", "256", "channel", "tensor"};
  if (grid.schemes.empty()) grid.schemes = {"symmetric", "asymmetric"};
  if (grid.skip_sets.empty()) grid.skip_sets = {{"none", {}}};
  Arrange(grid.weights, PlaceOfFormat);
  Arrange(grid.group_sizes, PlaceOfGroup);
  Arrange(grid.schemes, [](const std::string& word) -> int64_t { return word == "symmetric" ? 0 : 1; });
}

Status ReadSweepText(const std::string& text, const std::string& name, SweepGrid& grid) {
  const YamlText yaml(name);
  return yaml.Read(text, [&](const YAML::Node& root) -> Status {
    if (root.IsNull()) return OkStatus();
    std::vector<std::string> keys = QuantizeFileKeys();
    keys.emplace_back("skip-sets");
    return yaml.ForKeys(root, keys, [&](const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
      if (IsSweepAxis(key)) return ReadAxis(yaml, key, value, grid);
      if (key == "skip-sets") return ReadSkipSets(yaml, value, grid);
      return ReadQuantizeEntry(yaml, key, key_node, value, grid.base);
    });
  });
}

Status ReadSweepFile(const std::string& path, SweepGrid& grid) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kLongest));
  return ReadSweepText(text, path, grid);
}

}  // namespace quant
