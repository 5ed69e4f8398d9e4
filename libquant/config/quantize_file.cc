#include "libquant/config/quantize_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "libquant/base/file.h"

namespace quant {
namespace {

constexpr int64_t kLongest = int64_t{1} << 20;

class FileReader {
 public:
  FileReader(std::string name, QuantizeOptions& options) : name_(std::move(name)), options_(options) {}

  Status Read(const YAML::Node& root) {
    if (root.IsNull()) return OkStatus();
    std::vector<std::string> keys = QuantizeOptionKeys();
    keys.emplace_back("rules");
    return ForKeys(root, keys, [&](const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
      if (key == "rules") return Rules(value);
      if (HoldsList(key)) return List(key, value);
      ASSIGN_OR_RETURN(const std::string word, Scalar(key, value));
      return At(key_node, SetQuantizeOption(options_, key, word));
    });
  }

 private:
  std::string Place(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return fmt::format("{}:{}:{}", name_, mark.line + 1, mark.column + 1);
  }
  Status At(const YAML::Node& node, const Status& status) const {
    return status.ok() ? status : UsageError("{}: {}", Place(node), Message(status));
  }

  // Calls body(key, key's node, value's node) for each entry of a map whose keys are all known and different.
  template <typename Body>
  Status ForKeys(const YAML::Node& map, const std::vector<std::string>& known, const Body& body) {
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

  StatusOr<std::string> Scalar(const std::string& key, const YAML::Node& node) const {
    if (!node.IsScalar()) return UsageError("{}: {} takes a single value", Place(node), key);
    return node.Scalar();
  }

  Status List(const std::string& key, const YAML::Node& node) {
    if (node.IsScalar()) return At(node, SetQuantizeOption(options_, key, node.Scalar()));
    if (!node.IsSequence()) return UsageError("{}: {} takes a list", Place(node), key);
    for (const YAML::Node& entry : node) {
      ASSIGN_OR_RETURN(const std::string word, Scalar(key, entry));
      RETURN_IF_ERROR(At(entry, SetQuantizeOption(options_, key, word)));
    }
    return OkStatus();
  }

  Status Rules(const YAML::Node& node) {
    if (!node.IsSequence()) return UsageError("{}: rules are a list", Place(node));
    for (const YAML::Node& entry : node) RETURN_IF_ERROR(Rule(entry));
    return OkStatus();
  }

  Status RuleEntry(const std::string& key, const YAML::Node& value, WeightRule& rule) {
    ASSIGN_OR_RETURN(const std::string word, Scalar(key, value));
    if (key == "match" || key == "op") {
      if (word.empty()) return UsageError("{}: {} is empty", Place(value), key);
      (key == "match" ? rule.match : rule.op) = word;
      return OkStatus();
    }
    if (key == "skip") {
      if (word != "true" && word != "false") return UsageError("{}: skip takes true or false", Place(value));
      rule.skip = word == "true";
      return OkStatus();
    }
    WeightFormat scratch;
    RETURN_IF_ERROR(At(value, SetFormatOption(scratch, key, word)));
    rule.format.emplace_back(key, word);
    return OkStatus();
  }

  Status Rule(const YAML::Node& node) {
    WeightRule rule;
    rule.where = fmt::format("{}:{}", name_, node.Mark().line + 1);
    std::vector<std::string> keys = FormatOptionKeys();
    keys.insert(keys.begin(), {"match", "op", "skip"});
    const Status read = ForKeys(node, keys, [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
      return RuleEntry(key, value, rule);
    });
    RETURN_IF_ERROR(read);
    if (rule.match.empty() && rule.op.empty()) return UsageError("{}: a rule needs match, op or both", Place(node));
    if (rule.skip && !rule.format.empty()) {
      return UsageError("{}: a rule that skips has no use for {}", Place(node), rule.format[0].first);
    }
    if (!rule.skip && rule.format.empty()) return UsageError("{}: a rule without effect", Place(node));
    options_.rules.push_back(std::move(rule));
    return OkStatus();
  }

  std::string name_;
  QuantizeOptions& options_;
};

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

Status ReadQuantizeText(const std::string& text, const std::string& name, QuantizeOptions& options) {
  try {
    RETURN_IF_ERROR(CheckOneDocument(text, name));
    return FileReader(name, options).Read(YAML::Load(text));
  } catch (const YAML::Exception& e) {
    return UsageError("{}:{}:{}: {}", name, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
}

Status ReadQuantizeFile(const std::string& path, QuantizeOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kLongest));
  return ReadQuantizeText(text, path, options);
}

}  // namespace quant
