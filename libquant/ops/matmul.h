// Shapes of NumPy's matmul, shared by MatMul and its integer kin.
#pragma once

#include "libquant/base/status.h"
#include "libquant/ir/shape.h"

namespace quant {

struct MatMulPlan {
  int64_t m = 1, n = 1, k = 0;
  // Product i of `count` takes matrix a_matrix[i] of a and b_matrix[i] of b (matrices of m x k and k x n elements).
  // When b is one matrix for all, the rows of all of a's matrices are counted in m and count is 1.
  int64_t count = 1;
  std::vector<int64_t> a_matrix, b_matrix;
  Dims out_dims;
};

// DataError when the dims don't fit.
StatusOr<MatMulPlan> PlanMatMul(const Dims& a, const Dims& b);

}  // namespace quant
