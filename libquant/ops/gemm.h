// The matrix product under MatMul, Gemm, Conv and MatMulNBits:
//   c[i, j] (+)= sum over p of a[i, p] * b[p, j]        a: m x k, b: k x n, c: m x n
// Tiles' sizes depend on the problem alone, so that the bytes are the same for any number of threads. T is float (with
// kernels of our own, the same bytes on any machine) or double (through Eigen); a single row or column has a path of
// its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "libquant/ir/tensor.h"

namespace quant {

// A matrix in memory: element (row, col) is at row * stride + col or, transposed, at col * stride + row.
template <typename T>
struct MatrixRef {
  const T* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;

  const T* at(int64_t row, int64_t col) const { return data + (transposed ? col * stride + row : row * stride + col); }
  MatrixRef Block(int64_t row, int64_t col) const { return {at(row, col), stride, transposed}; }
};

struct GemmSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// The rows of a float32 matrix in the order in which the kernel reads them, up to kGemmDepth of each at a time: for a
// matrix that is multiplied again and again.
class PackedRows {
 public:
  PackedRows() = default;
  PackedRows(const MatrixRef<float>& a, int64_t m, int64_t k);
  // Part [p, p + depth) of the rows from `row` on: p a multiple of kGemmDepth, row one of kKernelRows.
  const float* At(int64_t row, int64_t p) const;

 private:
  int64_t m_ = 0;
  int64_t k_ = 0;
  std::shared_ptr<Buffer> data_;
};

// One product. `c` has rows of `c_stride` elements; with `add` it holds what the product is added to (a bias, say),
// otherwise it is overwritten.
template <typename T>
struct GemmOperands {
  MatrixRef<T> a;
  MatrixRef<T> b;
  T* c = nullptr;
  int64_t c_stride = 0;
  bool add = false;
  // For float32: `a` in this order too, its row 0 being row `packed_row` (a multiple of kKernelRows) of the packed
  // ones.
  const PackedRows* packed = nullptr;
  int64_t packed_row = 0;
};

// Parts of the sum over p that are added to c one after another, whatever the kernel.
constexpr int64_t kGemmDepth = 256;

// Size of the equal pieces (the last may be shorter) that a length is split into, each near `preferred` and, unless it
// is the whole, a multiple of `multiple`.
int64_t TileSize(int64_t length, int64_t preferred, int64_t multiple = 32);

// On the calling thread, untiled: for callers that tile and split the work themselves.
template <typename T>
void GemmTile(const GemmSize& size, const GemmOperands<T>& operands);

// GemmTile for float32, k > 0.
void FloatTile(const GemmSize& size, const GemmOperands<float>& operands);

// c (+)= a * b for float32 with rows of b anywhere: row p is at b + offsets[p]. Rows of a from `row` on, a multiple of
// kKernelRows. Works on whole strips of kMaxKernelColumns columns, so b's rows and c's must have room for n rounded up.
void ScatteredTile(const GemmSize& size, const PackedRows& a, int64_t row, const float* b, const int64_t* offsets,
                   float* c, int64_t c_stride, bool add);

// `count` products of one size, split over threads; operands(i) says where product i lives and may be called from
// any thread, more than once. `finish` is called for each finished run of elements of a row of some c, and may change
// them.
template <typename T>
void GemmBatch(const GemmSize& size, int64_t count, const std::function<GemmOperands<T>(int64_t)>& operands,
               const std::function<void(T* run, int64_t length)>& finish = nullptr);

// Sum of x[i] * y[i], in a fixed order, in T.
template <typename T>
T Dot(const T* x, const T* y, int64_t count);

}  // namespace quant
