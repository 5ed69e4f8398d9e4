// What a model file says of itself beside its graph, for people to read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

struct ModelProperties {
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc;
  std::vector<std::pair<std::string, std::string>> metadata;  // in the file's order
};

// Taken from Model::extra. BugError when that is no serialized ModelProto.
StatusOr<ModelProperties> PropertiesOf(const Model& model);

}  // namespace quant
