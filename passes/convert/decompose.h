// Makes basic operators of those that a target lacks or that the user names: by a pass of this folder where there is
// one (DecomposePasses), else by the body that ONNX defines an operator with.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/target.h"
#include "libquant/ir/graph.h"

namespace quant {

struct DecomposeOptions {
  std::vector<std::string> operators;  // of any domain
  std::optional<Target> target;        // all operators that it does not run, as well
};

struct DecomposeReport {
  std::map<std::string, int> nodes;  // operator -> how many became others
};

// UsageError when an operator named is not in the model; Unsupported, with the reason, when nodes are left: no rule, no
// body, or a body that needs a newer opset. Expands the model's functions when a body of ONNX's is used. Types must
// have been inferred.
StatusOr<DecomposeReport> DecomposeOperators(Model& model, const DecomposeOptions& options);

}  // namespace quant
