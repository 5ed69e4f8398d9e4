// The rewrite for one weight: its readers read quantized codes instead.
//
//   matrix     MatMul(x, W)     =>  MatMul(x, DequantizeLinear(codes [K,N], scales, zero_points?))
//   kernel     Conv(x, W)       =>  Conv(x, Reshape(DequantizeLinear(codes [M,rest], ...), dims))
//   rows       Gather(W, i)     =>  (Gather(codes, i) - Gather(zero_points, i)) * Gather(scales, i), with Casts
//   nbits      MatMul(x, W)     =>  MatMulNBits(x, codes, scales, zero_points?)
//              Gemm(x, W, c)    =>  MatMulNBits(x, codes, scales, zero_points?, -, c), or with the scalings spelled out
//              Gather(W, i)     =>  GatherBlockQuantized(codes, i, scales, zero_points?)
#pragma once

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "passes/quant/weight_form.h"

namespace quant {

// Readers keep their names. The float weight stays until nothing reads it and a sweep removes it.
Status EmitWeight(Graph& graph, ValueId weight, const FormGroup& group, const QuantizedWeight& quantized,
                  const QuantizeOptions& options);

}  // namespace quant
