// One entry of the quantizer's YAML file, for files that hold more than that.
#pragma once

#include <string>
#include <vector>

#include "libquant/config/quantize_options.h"
#include "libquant/config/yaml_text.h"

namespace quant {

// The keys of the quantizer's file.
const std::vector<std::string>& QuantizeFileKeys();
// What the file does with one of them.
Status ReadQuantizeEntry(const YamlText& yaml, const std::string& key, const YAML::Node& key_node,
                         const YAML::Node& value, QuantizeOptions& options);

}  // namespace quant
