// What Gemm and its kin, QGemm and FusedGemm, have in common.
#pragma once

#include "libquant/ops/gemm.h"
#include "libquant/ops/op_def.h"

namespace quant {

struct GemmNode {
  GemmSize size;
  bool trans_a = false, trans_b = false;
  float alpha = 1, beta = 1;
  int64_t c_row = 0, c_col = 0;  // strides of c over y's rows and columns; 0 where it repeats
};

// Reads the attributes against the dims of a and b and the added matrix, which may be null; DataError when they don't
// fit each other.
StatusOr<GemmNode> ReadGemm(const Attributes& attributes, const Dims& a, const Dims& b, const Tensor* c);

// The kernel of Gemm.
Status EvalGemm(KernelContext& context);

}  // namespace quant
