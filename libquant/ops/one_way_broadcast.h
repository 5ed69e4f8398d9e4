// Operands before opset 7: the second one had the first one's dims or, where attribute `broadcast` said so, matched a
// run of them from `axis` on (default: the last ones).
#pragma once

#include "libquant/ops/op_def.h"

namespace quant {

// Input 1 under dims that broadcast to input 0's as opset 7 has it. From opset 7 on, input 1 as it is.
StatusOr<Tensor> SecondOperand(const KernelContext& context);

}  // namespace quant
