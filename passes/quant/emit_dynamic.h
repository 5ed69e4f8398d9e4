// Dynamic quantization: the activation becomes codes at the range that it has in each run.
//
//   (xq, xs, xz) = DynamicQuantizeLinear(x)                       once, for all that read x so
//   y = MatMul(x, W)        =>  y = Cast(MatMulInteger(xq, codes, xz, z)) * (xs * scales)
//   y = Gemm(x, W, c)       =>  the same + c
//   y = Conv(x, W, b)       =>  y = Cast(ConvInteger(xq, codes, xz, z)) * (xs * scales) + b, by output channel
//
// z is 128 for unsigned codes and left out for signed ones. The order of operators is the one that ONNX Runtime fuses
// to DynamicQuantizeMatMul.
#pragma once

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "passes/quant/weight_form.h"

namespace quant {

// Readers keep their names. DynamicQuantizeLinear may end up behind a reader: the graph is to be sorted afterwards.
Status EmitDynamic(Graph& graph, const Value& source, const FormGroup& group, const QuantizedWeight& weight);

}  // namespace quant
