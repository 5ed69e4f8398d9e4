// What the products of quantized matrices share: MatMulInteger, QLinearMatMul, MatMulIntegerToFloat and their kin.
#pragma once

#include <vector>

#include "libquant/ops/integer_gemm.h"
#include "libquant/ops/matmul.h"
#include "libquant/ops/quant_layout.h"

namespace quant {

struct CodeProductInputs {
  const Tensor* a = nullptr;
  const Tensor* b = nullptr;
  const Tensor* a_zero = nullptr;  // or null: 0
  const Tensor* b_zero = nullptr;  // or null: 0
};

struct CodeProduct {
  MatMulPlan plan;
  // Of all rows of a's matrices, and of all columns of b's.
  std::vector<int32_t> a_zeros, b_zeros;
  CodeMatrix a, b;  // the first ones

  // The zero points' first row and column of a tile, in all rows and columns.
  int64_t RowOf(const SumTile& tile) const {
    return plan.a_matrix[static_cast<size_t>(tile.product)] * plan.m + tile.row;
  }
  int64_t ColumnOf(const SumTile& tile) const {
    return plan.b_matrix[static_cast<size_t>(tile.product)] * plan.n + tile.col;
  }
  int64_t OutputOf(const SumTile& tile, int64_t row) const {
    return ((tile.product * plan.m) + tile.row + row) * plan.n + tile.col;
  }
};

// DataError where shapes, types or zero points don't fit each other, Unsupported for codes not of 8 bits.
StatusOr<CodeProduct> PlanCodeProduct(const CodeProductInputs& inputs);

// Hands the sums of (a - a_zero) * (b - b_zero) to `finish`, tile by tile, from any thread.
void RunCodeProduct(const KernelContext& context, const CodeProduct& product,
                    const std::function<void(const SumTile&)>& finish);

// Whether a tensor has codes of 8 bits; DataError unless a zero point, where there is one, has the same type.
Status CheckCodes(const Tensor& codes, const Tensor* zero_point);

// Where the scales or zero points of a matrix product's operand lie: one for all, one for each row (or column) of a
// matrix, or one for each of every matrix, as [.., rows, 1] (or [.., 1, columns]). For each row (or column) of all
// matrices in turn, the index of its element. DataError for other dims.
StatusOr<std::vector<int64_t>> RowParameters(const Tensor& parameters, const Dims& operand);
StatusOr<std::vector<int64_t>> ColumnParameters(const Tensor& parameters, const Dims& operand);

}  // namespace quant
