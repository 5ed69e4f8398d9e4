// YAML files read strictly: one document, known keys, each once; whatever is wrong is a UsageError with the file's
// name, line and column.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

class YamlText {
 public:
  // `name` is the file's in messages.
  explicit YamlText(std::string name) : name_(std::move(name)) {}

  // Calls body(root) with the text's one document; what yaml-cpp throws becomes a Status.
  Status Read(const std::string& text, const std::function<Status(const YAML::Node& root)>& body) const;

  const std::string& name() const { return name_; }
  std::string Place(const YAML::Node& node) const;  // "file:line:column"
  // The status with the place before its message, as UsageError.
  Status At(const YAML::Node& node, const Status& status) const;

  // Calls body(key, key's node, value's node) for each entry of a map whose keys are all known and different.
  using Entry = std::function<Status(const std::string& key, const YAML::Node& key_node, const YAML::Node& value)>;
  Status ForKeys(const YAML::Node& map, const std::vector<std::string>& known, const Entry& body) const;

  StatusOr<std::string> Scalar(const std::string& key, const YAML::Node& node) const;
  // A list of words, or a single one.
  StatusOr<std::vector<std::string>> Words(const std::string& key, const YAML::Node& node) const;

 private:
  std::string name_;
};

}  // namespace quant
