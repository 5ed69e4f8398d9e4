// The rewrite for one weight: its readers read quantized codes instead.
//
//   qdq, matrix:  MatMul(x, W)  =>  MatMul(x, DequantizeLinear(codes [K,N], scales, zero_points?))
//   qdq, kernel:  Conv(x, W)    =>  Conv(x, Reshape(DequantizeLinear(codes [M,rest], ...), dims))
//   nbits:        MatMul(x, W)  =>  MatMulNBits(x, codes, scales, zero_points?)
//                 Gemm(x, W, c) =>  MatMulNBits(x, codes, scales, zero_points?, -, c), or with the scalings spelled out
#pragma once

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "passes/quant/weight_form.h"
#include "passes/quant/weight_inventory.h"

namespace quant {

// Readers keep their names. The float weight stays until nothing reads it and a sweep removes it.
Status EmitWeight(Graph& graph, const WeightSite& site, const WeightForm& form, const QuantizedWeight& weight,
                  const QuantizeOptions& options);

}  // namespace quant
