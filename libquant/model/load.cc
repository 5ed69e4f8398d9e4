#include "libquant/model/load.h"

#include "libquant/model/check.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/read.h"

namespace quant {

StatusOr<Model> LoadModel(const std::string& path) {
  ASSIGN_OR_RETURN(Model model, ReadModel(path));
  RETURN_IF_ERROR(WithContext(CheckModel(model), path));
  RETURN_IF_ERROR(WithContext(InferShapes(model), path));
  return model;
}

StatusOr<Model> LoadToRun(const std::string& path) {
  ASSIGN_OR_RETURN(Model model, LoadModel(path));
  RETURN_IF_ERROR(WithContext(ExpandOperators(model), path));
  return model;
}

}  // namespace quant
