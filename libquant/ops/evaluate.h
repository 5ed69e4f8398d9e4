// Runs one operator's kernel on tensors, outside any session: for folding constants.
#pragma once

#include <span>
#include <vector>

#include "libquant/ops/op_def.h"

namespace quant {

// The outputs; inputs are null where left out, else owned. `version` is the opset of the operator's domain. Unsupported
// for operators without a kernel of their own (If, Loop, Scan); whatever a kernel throws becomes a Status.
StatusOr<std::vector<Tensor>> EvaluateOp(const OpDef& op, const Attributes& attributes, int64_t version,
                                         std::span<const Tensor* const> inputs, size_t outputs);

}  // namespace quant
