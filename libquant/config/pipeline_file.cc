#include "libquant/config/pipeline_file.h"

#include "libquant/config/yaml_text.h"

namespace quant {

StatusOr<PipelineFile> ReadPipelineText(const std::string& text, const std::string& name) {
  PipelineFile out;
  const YamlText yaml(name);
  RETURN_IF_ERROR(yaml.Read(text, [&](const YAML::Node& root) {
    return yaml.ForKeys(root, {"about", "extends", "passes"},
                        [&](const std::string& key, const YAML::Node&, const YAML::Node& value) -> Status {
                          if (key == "about") return yaml.Scalar(key, value).status();
                          if (key == "extends") {
                            ASSIGN_OR_RETURN(out.extends, yaml.Scalar(key, value));
                            return OkStatus();
                          }
                          ASSIGN_OR_RETURN(out.passes, yaml.Words(key, value));
                          return OkStatus();
                        });
  }));
  if (out.passes.empty()) return UsageError("{}: it lists no passes", name);
  return out;
}

}  // namespace quant
