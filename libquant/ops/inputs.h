// Checks of inputs behind an optional one, which OpDef::min_inputs doesn't count.
#pragma once

#include <initializer_list>

#include "libquant/ops/op_def.h"

namespace quant {

// DataError when one of these inputs is left out.
inline Status RequireInputs(const KernelContext& context, std::initializer_list<int> inputs) {
  for (int i : inputs) {
    if (context.input(i) == nullptr) return DataError("input {} is left out", i);
  }
  return OkStatus();
}

}  // namespace quant
