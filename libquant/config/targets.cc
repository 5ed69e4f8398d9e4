#include <algorithm>
#include <charconv>
#include <map>

#include "libquant/config/built_in.h"
#include "libquant/config/target.h"
#include "libquant/config/yaml_text.h"
#include "libquant/numerics/format.h"

namespace quant {
namespace {

constexpr std::string_view kFolder = "targets/";

class TargetReader {
 public:
  TargetReader(const YamlText& yaml, Target& target) : yaml_(yaml), target_(target) {}

  Status Read(const YAML::Node& root) {
    const std::vector<std::string> keys = {
        "name",       "about", "min-opset", "max-opset", "negative-scales", "dynamic-shapes", "float16", "int4",
        "falls-back", "runs",  "lacks",     "microsoft", "others",          "limits",         "types",   "integer"};
    return yaml_.ForKeys(root, keys, [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
      return Entry(key, value);
    });
  }

 private:
  Status Entry(const std::string& key, const YAML::Node& value) {
    if (key == "limits") return Limits(value);
    if (key == "types") return Types(value);
    if (key == "integer") return Integer(value);
    if (std::vector<std::string>* list = ListOf(key)) {
      ASSIGN_OR_RETURN(*list, yaml_.Words(key, value));
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string word, yaml_.Scalar(key, value));
    if (key == "name") target_.name = word;
    if (key == "about") target_.about = word;
    if (key == "negative-scales") return Flag(key, value, word, target_.negative_scales);
    if (key == "dynamic-shapes") return Flag(key, value, word, target_.dynamic_shapes);
    if (key == "float16") return Flag(key, value, word, target_.float16);
    if (key == "int4") return Flag(key, value, word, target_.int4);
    if (key == "falls-back") return Flag(key, value, word, target_.falls_back);
    if (key == "min-opset") return Number(key, value, word, target_.min_opset);
    if (key == "max-opset") return Number(key, value, word, target_.max_opset);
    return OkStatus();
  }

  std::vector<std::string>* ListOf(const std::string& key) const {
    if (key == "runs") return &target_.runs;
    if (key == "lacks") return &target_.lacks;
    if (key == "microsoft") return &target_.microsoft;
    return key == "others" ? &target_.others : nullptr;
  }

  // A map of operators, each once, to a sentence.
  Status Limits(const YAML::Node& map) {
    if (!map.IsMap()) return UsageError("{}: limits takes a map", yaml_.Place(map));
    for (const auto& entry : map) {
      ASSIGN_OR_RETURN(const std::string op, yaml_.Scalar("limits", entry.first));
      ASSIGN_OR_RETURN(std::string text, yaml_.Scalar(op, entry.second));
      if (!target_.limits.emplace(op, std::move(text)).second) {
        return UsageError("{}: {} is given twice", yaml_.Place(entry.first), op);
      }
    }
    return OkStatus();
  }

  // A list of {takes, of}: element types, and the operators that they are for; without `of`, all that are not named.
  Status Types(const YAML::Node& list) {
    if (!list.IsSequence()) return UsageError("{}: types takes a list", yaml_.Place(list));
    for (const auto& entry : list) {
      std::vector<std::string> of = {""};
      std::vector<DType> takes;
      RETURN_IF_ERROR(
          yaml_.ForKeys(entry, {"takes", "of"}, [&](const std::string& key, const auto&, const auto& value) {
            if (key == "takes") return ElementTypes(value, takes);
            ASSIGN_OR_RETURN(of, yaml_.Words(key, value));
            return OkStatus();
          }));
      for (const std::string& op : of) {
        if (!target_.types.emplace(op, takes).second) {
          return UsageError("{}: types of {} are given twice", yaml_.Place(entry), op.empty() ? "all others" : op);
        }
      }
    }
    return OkStatus();
  }

  Status Integer(const YAML::Node& map) {
    IntegerRules& rules = target_.integer;
    const std::map<std::string, std::vector<std::string>*> lists = {{"activations", &rules.activations},
                                                                    {"weights", &rules.weights},
                                                                    {"kernels", &rules.kernels},
                                                                    {"float-outputs", &rules.float_outputs},
                                                                    {"moves", &rules.moves}};
    const std::map<std::string, bool*> flags = {{"zero-points", &rules.zero_points},
                                                {"channel-scales", &rules.channel_scales},
                                                {"integer-bias", &rules.integer_bias},
                                                {"absorb-clamps", &rules.absorb_clamps}};
    std::vector<std::string> keys;
    for (const auto& list : lists) keys.push_back(list.first);
    for (const auto& flag : flags) keys.push_back(flag.first);
    keys.emplace_back("most-signed-code");
    return yaml_.ForKeys(map, keys, [&](const std::string& key, const auto&, const YAML::Node& value) -> Status {
      if (const auto flag = flags.find(key); flag != flags.end()) {
        ASSIGN_OR_RETURN(const std::string word, yaml_.Scalar(key, value));
        return Flag(key, value, word, *flag->second);
      }
      if (key == "most-signed-code") {
        ASSIGN_OR_RETURN(const std::string word, yaml_.Scalar(key, value));
        return Number(key, value, word, rules.most_signed_code);
      }
      ASSIGN_OR_RETURN(*lists.at(key), yaml_.Words(key, value));
      if (key != "activations" && key != "weights") return OkStatus();
      for (const std::string& format : *lists.at(key)) {
        if (FindFormat(format) == nullptr) return UsageError("{}: there is no format {}", yaml_.Place(value), format);
      }
      return OkStatus();
    });
  }

  Status ElementTypes(const YAML::Node& node, std::vector<DType>& out) const {
    ASSIGN_OR_RETURN(const std::vector<std::string> words, yaml_.Words("takes", node));
    for (const std::string& word : words) {
      out.push_back(DTypeFromName(word));
      if (out.back() == DType::kUndefined) return UsageError("{}: there is no type {}", yaml_.Place(node), word);
    }
    return OkStatus();
  }

  Status Flag(const std::string& key, const YAML::Node& node, const std::string& word, bool& out) const {
    if (word != "true" && word != "false") return UsageError("{}: {} takes true or false", yaml_.Place(node), key);
    out = word == "true";
    return OkStatus();
  }

  template <typename Int>
  Status Number(const std::string& key, const YAML::Node& node, const std::string& word, Int& out) const {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
    if (error == std::errc() && end == word.data() + word.size() && out >= 1) return OkStatus();
    return UsageError("{}: {} takes a number of 1 or more", yaml_.Place(node), key);
  }

  const YamlText& yaml_;
  Target& target_;
};

bool Has(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

bool Target::Runs(std::string_view domain, std::string_view op_type) const {
  if (domain.empty() || domain == "ai.onnx") return runs.empty() ? !Has(lacks, op_type) : Has(runs, op_type);
  if (domain == "com.microsoft") return Has(microsoft, op_type);
  return Has(others, fmt::format("{}:{}", domain, op_type));
}

bool Target::Takes(std::string_view domain, std::string_view op_type, DType dtype) const {
  const bool standard = domain.empty() || domain == "ai.onnx";
  auto found = types.find(standard ? std::string(op_type) : fmt::format("{}:{}", domain, op_type));
  if (found == types.end() && standard) found = types.find("");
  if (found == types.end()) return true;
  return std::find(found->second.begin(), found->second.end(), dtype) != found->second.end();
}

StatusOr<Target> ReadTargetText(const std::string& text, const std::string& name) {
  Target target;
  const YamlText yaml(name);
  RETURN_IF_ERROR(yaml.Read(text, [&](const YAML::Node& root) { return TargetReader(yaml, target).Read(root); }));
  return target;
}

std::vector<std::string> TargetNames() { return BuiltInNames(kFolder); }

StatusOr<Target> FindTarget(std::string_view name) {
  const auto text = BuiltInText(kFolder, name);
  if (text) return ReadTargetText(std::string(*text), std::string(kFolder) + std::string(name) + ".yaml");
  return UsageError("target takes one of {}, not '{}'", fmt::join(TargetNames(), ", "), name);
}

}  // namespace quant
