#include "libquant/ops/gemm.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"

namespace quant {
namespace {

constexpr int64_t kTileRows = 240;
constexpr int64_t kRowMultiple = 48;  // of kKernelRows too, as packed rows ask
constexpr int64_t kTileCols = 256;
// Columns of a single row done at a time: the sums stay in the first-level cache while rows of b stream by.
constexpr int64_t kRowTile = 1024;

// Eigen blocks its loops by the cache sizes it finds on the machine; fixed ones give the same sums everywhere.
void FixCacheSizes() {
  [[maybe_unused]] static const bool done = [] {
    Eigen::setCpuCacheSizes(32768, 262144, 2097152);
    return true;
  }();
}

template <typename T, int Order>
using View = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>, 0, Eigen::OuterStride<>>;

template <typename T, int OrderA, int OrderB>
void Product(const GemmSize& s, const GemmOperands<T>& o) {
  View<T, OrderA> a(o.a.data, s.m, s.k, Eigen::OuterStride<>(o.a.stride));
  View<T, OrderB> b(o.b.data, s.k, s.n, Eigen::OuterStride<>(o.b.stride));
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>> c(
      o.c, s.m, s.n, Eigen::OuterStride<>(o.c_stride));
  c.noalias() += a * b;
}

// c[0, j] += sum of x[p] * b[p, j] for b as it lies in memory: rows of b times numbers, eight rows at a time.
template <typename T>
void RowTimesMatrix(const T* x, const T* b, int64_t stride, int64_t k, int64_t n, T* c) {
  int64_t p = 0;
  for (; p + 8 <= k; p += 8, x += 8, b += 8 * stride) {
    const T *b0 = b, *b1 = b + stride, *b2 = b + 2 * stride, *b3 = b + 3 * stride;
    const T *b4 = b + 4 * stride, *b5 = b + 5 * stride, *b6 = b + 6 * stride, *b7 = b + 7 * stride;
    for (int64_t j = 0; j < n; ++j) {
      c[j] += ((x[0] * b0[j] + x[1] * b1[j]) + (x[2] * b2[j] + x[3] * b3[j])) +
              ((x[4] * b4[j] + x[5] * b5[j]) + (x[6] * b6[j] + x[7] * b7[j]));
    }
  }
  for (; p < k; ++p, ++x, b += stride) {
    for (int64_t j = 0; j < n; ++j) c[j] += x[0] * b[j];
  }
}

// One row x (contiguous, k long) times columns [begin, end) of b.
template <typename T>
void RowTile(const T* x, const MatrixRef<T>& b, int64_t k, int64_t begin, int64_t end, T* c, bool add) {
  if (b.transposed) {
    for (int64_t j = begin; j < end; ++j) {
      const T sum = Dot(x, b.data + j * b.stride, k);
      c[j] = add ? c[j] + sum : sum;
    }
    return;
  }
  if (!add) std::fill(c + begin, c + end, T{0});
  RowTimesMatrix(x, b.data + begin, b.stride, k, end - begin, c + begin);
}

// The row that a 1 x k or k x 1 operand is, when its elements lie side by side.
template <typename T>
bool IsContiguous(const MatrixRef<T>& row, int64_t k) {
  return !row.transposed || row.stride == 1 || k == 1;
}

// A column result is a row result of the transposed problem: c' = b' a'.
template <typename T>
bool AsSingleRow(GemmSize& size, GemmOperands<T>& o) {
  if (size.m == 1) return IsContiguous(o.a, size.k);
  if (size.n != 1 || o.c_stride != 1) return false;
  const MatrixRef<T> x{o.b.data, o.b.stride, !o.b.transposed};
  if (!IsContiguous(x, size.k)) return false;
  o = {.a = x, .b = {o.a.data, o.a.stride, !o.a.transposed}, .c = o.c, .c_stride = size.m, .add = o.add};
  std::swap(size.m, size.n);
  return true;
}

}  // namespace

int64_t TileSize(int64_t length, int64_t preferred, int64_t multiple) {
  if (length <= preferred) return std::max<int64_t>(length, 1);
  const int64_t even = CeilDiv(length, CeilDiv(length, preferred));
  return CeilDiv(even, multiple) * multiple;
}

template <typename T>
T Dot(const T* x, const T* y, int64_t count) {
  constexpr int64_t kLanes = 32;
  std::array<T, kLanes> sums = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) sums[static_cast<size_t>(j)] += x[i + j] * y[i + j];
  }
  for (int64_t j = 0; i < count; ++i, ++j) sums[static_cast<size_t>(j)] += x[i] * y[i];
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

template <typename T>
void GemmTile(const GemmSize& size, const GemmOperands<T>& operands) {
  if (size.m <= 0 || size.n <= 0) return;
  if (GemmSize s = size; s.m == 1 || s.n == 1) {
    GemmOperands<T> o = operands;
    if (AsSingleRow(s, o)) return RowTile(o.a.data, o.b, s.k, 0, s.n, o.c, o.add);
  }
  const GemmOperands<T>& o = operands;
  if constexpr (std::is_same_v<T, float>) {
    if (size.k > 0) return FloatTile(size, o);
  }
  if (!o.add) {
    for (int64_t i = 0; i < size.m; ++i) std::fill_n(o.c + i * o.c_stride, size.n, T{0});
  }
  if (size.k <= 0) return;
  FixCacheSizes();
  constexpr int kRow = Eigen::RowMajor, kCol = Eigen::ColMajor;
  if (o.a.transposed) {
    o.b.transposed ? Product<T, kCol, kCol>(size, o) : Product<T, kCol, kRow>(size, o);
  } else {
    o.b.transposed ? Product<T, kRow, kCol>(size, o) : Product<T, kRow, kRow>(size, o);
  }
}

template <typename T>
void GemmBatch(const GemmSize& size, int64_t count, const std::function<GemmOperands<T>(int64_t)>& operands,
               const std::function<void(T* run, int64_t length)>& finish) {
  if (size.m <= 0 || size.n <= 0 || count <= 0) return;
  if (size.m == 1 || size.n == 1) {
    GemmSize s = size;
    GemmOperands<T> first = operands(0);
    if (AsSingleRow(s, first)) {
      const int64_t tiles = CeilDiv(s.n, kRowTile);
      return ParallelFor(count * tiles, [&](int64_t item) {
        GemmSize row = size;
        GemmOperands<T> o = operands(item / tiles);
        AsSingleRow(row, o);
        const int64_t begin = item % tiles * kRowTile;
        const int64_t end = std::min(begin + kRowTile, row.n);
        RowTile(o.a.data, o.b, row.k, begin, end, o.c, o.add);
        if (finish) finish(o.c + begin, end - begin);
      });
    }
  }
  const int64_t rows = TileSize(size.m, kTileRows, kRowMultiple), cols = TileSize(size.n, kTileCols);
  const int64_t row_tiles = CeilDiv(size.m, rows), col_tiles = CeilDiv(size.n, cols);
  ParallelFor(count * row_tiles * col_tiles, [&](int64_t item) {
    const int64_t row = item % row_tiles * rows;
    const int64_t col = item / row_tiles % col_tiles * cols;
    GemmOperands<T> o = operands(item / row_tiles / col_tiles);
    o.a = o.a.Block(row, 0);
    o.packed_row += row;
    o.b = o.b.Block(0, col);
    o.c += row * o.c_stride + col;
    const GemmSize tile = {std::min(rows, size.m - row), std::min(cols, size.n - col), size.k};
    GemmTile<T>(tile, o);
    for (int64_t i = 0; i < tile.m && finish; ++i) finish(o.c + i * o.c_stride, tile.n);
  });
}

template float Dot(const float*, const float*, int64_t);
template double Dot(const double*, const double*, int64_t);
template void GemmTile(const GemmSize&, const GemmOperands<float>&);
template void GemmTile(const GemmSize&, const GemmOperands<double>&);
template void GemmBatch(const GemmSize&, int64_t, const std::function<GemmOperands<float>(int64_t)>&,
                        const std::function<void(float*, int64_t)>&);
template void GemmBatch(const GemmSize&, int64_t, const std::function<GemmOperands<double>(int64_t)>&,
                        const std::function<void(double*, int64_t)>&);

}  // namespace quant
