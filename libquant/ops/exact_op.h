// Definitions of operators that compute exactly and differ in nothing but name, versions, kernel and role.
#pragma once

#include <utility>

#include "libquant/ops/op_def.h"

namespace quant {

inline OpDef ExactOp(std::string_view name, std::vector<int64_t> since, int min_inputs, Status (*eval)(KernelContext&),
                     Role role, std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = min_inputs,
          .eval = eval,
          .role = role,
          .exactness = Exactness::kExact,
          .summary = summary};
}

// Moves elements: Reshape, Transpose, Slice and their like.
inline OpDef Mover(std::string_view name, std::vector<int64_t> since, int min_inputs, Status (*eval)(KernelContext&),
                   std::string_view summary) {
  return ExactOp(name, std::move(since), min_inputs, eval, PassThrough{}, summary);
}

}  // namespace quant
