// An input that a caller must feed a model: what samples are made or checked against.
#pragma once

#include <optional>
#include <string>

#include "libquant/ir/dtype.h"
#include "libquant/ir/shape.h"

namespace quant {

struct InputSpec {
  std::string name;
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;
  int64_t index_bound = 0;  // > 0: integers in [0, bound): indices into a table of that length
};

}  // namespace quant
