#include "libquant/config/pipeline_file.h"

#include "libquant/config/yaml_text.h"

namespace quant {

StatusOr<std::vector<std::string>> ReadPipelineText(const std::string& text, const std::string& name) {
  std::vector<std::string> passes;
  const YamlText yaml(name);
  RETURN_IF_ERROR(yaml.Read(text, [&](const YAML::Node& root) {
    return yaml.ForKeys(root, {"about", "passes"},
                        [&](const std::string& key, const YAML::Node&, const YAML::Node& value) -> Status {
                          if (key == "about") return yaml.Scalar(key, value).status();
                          ASSIGN_OR_RETURN(passes, yaml.Words(key, value));
                          return OkStatus();
                        });
  }));
  if (passes.empty()) return UsageError("{}: it lists no passes", name);
  return passes;
}

}  // namespace quant
