// Which operators the executor can run, at which opsets.
#pragma once

#include <cstdint>
#include <string_view>

#include "libquant/ops/op_def.h"

namespace quant {

// The operator's definition when it has a kernel (or is If, Loop or Scan, which the executor runs itself) at this
// version of its domain's opset; else null.
const OpDef* FindKernel(std::string_view domain, std::string_view op_type, int64_t version);

// If, Loop, Scan: what they compute is in their bodies.
inline bool RunsBodies(const OpDef& op) { return op.eval == nullptr; }

}  // namespace quant
