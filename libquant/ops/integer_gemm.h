// The matrix product under the integer operators, on 8-bit codes, exact but for sums wrapping around as int32 does:
//   c[i, j] = sum over p of (a[i, p] - a_zero[i]) * (b[p, j] - b_zero[j])        a: m x k, b: k x n
#pragma once

#include <cstdint>
#include <functional>

#include "libquant/ops/gemm.h"
#include "libquant/ops/op_def.h"

namespace quant {

// Codes in memory: element (row, col) is at row * stride + col or, transposed, at col * stride + row. Zero points are
// those of the type, 0 to 255 or -128 to 127: one for each row of a, each column of b, zero_step 0 meaning one for all.
struct CodeMatrix {
  const uint8_t* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
  bool is_signed = false;
  const int32_t* zeros = nullptr;
  int64_t zero_step = 0;

  const uint8_t* at(int64_t row, int64_t col) const {
    return data + (transposed ? col * stride + row : row * stride + col);
  }
};

// A part of the product numbered `product`: its rows, columns and where their sums are. Those who take it may write to
// the sums.
struct SumTile {
  int64_t product = 0;
  int64_t row = 0, rows = 0;
  int64_t col = 0, cols = 0;
  int32_t* sums = nullptr;  // rows of `cols` elements

  int32_t* row_at(int64_t i) const { return sums + i * cols; }
};

// On the calling thread: c's rows are c_stride apart.
void IntegerTile(const GemmSize& size, const CodeMatrix& a, const CodeMatrix& b, int32_t* c, int64_t c_stride);

struct CodeOperands {
  CodeMatrix a, b;
};

// `count` products of one size in tiles, split over threads. operands(i) says where product i lives; finish(tile) takes
// the sums of one tile. Both may be called from any thread.
void IntegerGemmBatch(const KernelContext& context, const GemmSize& size, int64_t count,
                      const std::function<CodeOperands(int64_t)>& operands,
                      const std::function<void(const SumTile&)>& finish);

}  // namespace quant
