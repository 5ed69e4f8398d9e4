// Models from strangers, ready for work: read, checked, their shapes inferred.
#pragma once

#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// ReadModel, CheckModel and InferShapes; errors name the file.
StatusOr<Model> LoadModel(const std::string& path);

// The same with functions expanded, the model's own and those of operators without a kernel, for running it.
StatusOr<Model> LoadToRun(const std::string& path);

}  // namespace quant
