#include "libquant/config/quantize_file.h"

#include "libquant/base/file.h"
#include "libquant/config/quantize_entry.h"
#include "libquant/config/yaml_text.h"

namespace quant {
namespace {

constexpr int64_t kLongest = int64_t{1} << 20;

class FileReader {
 public:
  FileReader(const YamlText& yaml, QuantizeOptions& options) : yaml_(yaml), options_(options) {}

  Status Read(const YAML::Node& root) {
    if (root.IsNull()) return OkStatus();
    return yaml_.ForKeys(root, QuantizeFileKeys(),
                         [&](const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
                           return Entry(key, key_node, value);
                         });
  }

  Status Entry(const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
    if (key == "rules") return Rules(value);
    if (HoldsList(key)) return List(key, value);
    ASSIGN_OR_RETURN(const std::string word, yaml_.Scalar(key, value));
    return yaml_.At(key_node, SetQuantizeOption(options_, key, word));
  }

 private:
  Status List(const std::string& key, const YAML::Node& node) {
    if (node.IsScalar()) return yaml_.At(node, SetQuantizeOption(options_, key, node.Scalar()));
    if (!node.IsSequence()) return UsageError("{}: {} takes a list", yaml_.Place(node), key);
    for (const YAML::Node& entry : node) {
      ASSIGN_OR_RETURN(const std::string word, yaml_.Scalar(key, entry));
      RETURN_IF_ERROR(yaml_.At(entry, SetQuantizeOption(options_, key, word)));
    }
    return OkStatus();
  }

  Status Rules(const YAML::Node& node) {
    if (!node.IsSequence()) return UsageError("{}: rules are a list", yaml_.Place(node));
    for (const YAML::Node& entry : node) RETURN_IF_ERROR(Rule(entry));
    return OkStatus();
  }

  Status RuleEntry(const std::string& key, const YAML::Node& value, WeightRule& rule) {
    ASSIGN_OR_RETURN(const std::string word, yaml_.Scalar(key, value));
    if (key == "match" || key == "op") {
      if (word.empty()) return UsageError("{}: {} is empty", yaml_.Place(value), key);
      (key == "match" ? rule.match : rule.op) = word;
      return OkStatus();
    }
    if (key == "skip") {
      if (word != "true" && word != "false") return UsageError("{}: skip takes true or false", yaml_.Place(value));
      rule.skip = word == "true";
      return OkStatus();
    }
    WeightFormat scratch;
    RETURN_IF_ERROR(yaml_.At(value, SetFormatOption(scratch, key, word)));
    rule.format.emplace_back(key, word);
    return OkStatus();
  }

  Status Rule(const YAML::Node& node) {
    WeightRule rule;
    rule.where = fmt::format("{}:{}", yaml_.name(), node.Mark().line + 1);
    std::vector<std::string> keys = FormatOptionKeys();
    keys.insert(keys.begin(), {"match", "op", "skip"});
    const Status read =
        yaml_.ForKeys(node, keys, [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
          return RuleEntry(key, value, rule);
        });
    RETURN_IF_ERROR(read);
    if (rule.match.empty() && rule.op.empty())
      return UsageError("{}: a rule needs match, op or both", yaml_.Place(node));
    if (rule.skip && !rule.format.empty()) {
      return UsageError("{}: a rule that skips has no use for {}", yaml_.Place(node), rule.format[0].first);
    }
    if (!rule.skip && rule.format.empty()) return UsageError("{}: a rule without effect", yaml_.Place(node));
    options_.rules.push_back(std::move(rule));
    return OkStatus();
  }

  const YamlText& yaml_;
  QuantizeOptions& options_;
};

}  // namespace

const std::vector<std::string>& QuantizeFileKeys() {
  static const auto keys = [] {
    std::vector<std::string> out = QuantizeOptionKeys();
    out.emplace_back("rules");
    return out;
  }();
  return keys;
}

Status ReadQuantizeEntry(const YamlText& yaml, const std::string& key, const YAML::Node& key_node,
                         const YAML::Node& value, QuantizeOptions& options) {
  return FileReader(yaml, options).Entry(key, key_node, value);
}

Status ReadQuantizeText(const std::string& text, const std::string& name, QuantizeOptions& options) {
  const YamlText yaml(name);
  return yaml.Read(text, [&](const YAML::Node& root) { return FileReader(yaml, options).Read(root); });
}

Status ReadQuantizeFile(const std::string& path, QuantizeOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kLongest));
  return ReadQuantizeText(text, path, options);
}

}  // namespace quant
