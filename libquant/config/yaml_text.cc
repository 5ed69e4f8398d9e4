#include "libquant/config/yaml_text.h"

#include <algorithm>
#include <set>

namespace quant {
namespace {

// YAML::Load takes the first document and says nothing of others. A line that starts with --- begins one, whatever
// the document before it holds.
Status CheckOneDocument(const std::string& text, const std::string& name) {
  bool content = false;
  int line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view words(text.data() + at, end - at);
    const bool marker = words.substr(0, 3) == "---" && (words.size() == 3 || words[3] == ' ' || words[3] == '\r');
    if (marker && content) return UsageError("{}:{}: a second YAML document begins here; one is read", name, line);
    const size_t first = words.find_first_not_of(" \t\r");
    content = content || marker || (first != std::string_view::npos && words[first] != '#' && words[first] != '%');
    at = end + 1;
  }
  return OkStatus();
}

}  // namespace

Status YamlText::Read(const std::string& text, const std::function<Status(const YAML::Node& root)>& body) const {
  try {
    RETURN_IF_ERROR(CheckOneDocument(text, name_));
    return body(YAML::Load(text));
  } catch (const YAML::Exception& e) {
    return UsageError("{}:{}:{}: {}", name_, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
}

std::string YamlText::Place(const YAML::Node& node) const {
  const YAML::Mark mark = node.Mark();
  return fmt::format("{}:{}:{}", name_, mark.line + 1, mark.column + 1);
}

Status YamlText::At(const YAML::Node& node, const Status& status) const {
  return status.ok() ? status : UsageError("{}: {}", Place(node), Message(status));
}

Status YamlText::ForKeys(const YAML::Node& map, const std::vector<std::string>& known, const Entry& body) const {
  if (!map.IsMap()) return UsageError("{}: a map of keys and values belongs here", Place(map));
  std::set<std::string> seen;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) return UsageError("{}: a key must be a word", Place(entry.first));
    const std::string& key = entry.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string list;
      for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
      return UsageError("{}: unknown key '{}'; known are {}", Place(entry.first), key, list);
    }
    if (!seen.insert(key).second) return UsageError("{}: '{}' is given twice", Place(entry.first), key);
    RETURN_IF_ERROR(body(key, entry.first, entry.second));
  }
  return OkStatus();
}

StatusOr<std::string> YamlText::Scalar(const std::string& key, const YAML::Node& node) const {
  if (!node.IsScalar()) return UsageError("{}: {} takes a single value", Place(node), key);
  return node.Scalar();
}

StatusOr<std::vector<std::string>> YamlText::Words(const std::string& key, const YAML::Node& node) const {
  if (node.IsScalar()) return std::vector<std::string>{node.Scalar()};
  if (!node.IsSequence()) return UsageError("{}: {} takes a list", Place(node), key);
  std::vector<std::string> out;
  for (const YAML::Node& entry : node) {
    ASSIGN_OR_RETURN(out.emplace_back(), Scalar(key, entry));
  }
  return out;
}

}  // namespace quant
