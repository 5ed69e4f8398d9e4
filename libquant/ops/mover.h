// The definition of an operator that only moves elements: Reshape, Transpose, Slice and their like differ in nothing
// but name, versions and kernel.
#pragma once

#include <utility>

#include "libquant/ops/op_def.h"

namespace quant {

inline OpDef Mover(std::string_view name, std::vector<int64_t> since, int min_inputs, Status (*eval)(KernelContext&),
                   std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = min_inputs,
          .eval = eval,
          .role = PassThrough{},
          .exactness = Exactness::kExact,
          .summary = summary};
}

}  // namespace quant
