// Codes become int16 differences from their zero points, in pairs along the sum: a pair of a times a pair of b is one
// int32, and 16 columns of pairs are one multiply-add instruction. Rows of a and a strip of b's columns are copied into
// the order in which the kernel reads them, up to kDepth of the sum at a time.
#include "libquant/ops/integer_gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/scratch.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace quant {
namespace {

constexpr int64_t kRows = 6;      // of a kernel's block
constexpr int64_t kColumns = 16;  // of a kernel's block
constexpr int64_t kDepth = 512;   // even
constexpr int64_t kTileRows = 96, kTileColumns = 256;
// With fewer tiles than this, they are made smaller so that threads have work.
constexpr int64_t kWantedTiles = 8;

// A code as it is stored becomes an unsigned one by ^ flip, and its zero point by + shift.
uint8_t FlipOf(const CodeMatrix& m) { return m.is_signed ? 0x80 : 0; }
int16_t ZeroOf(const CodeMatrix& m, int64_t i) {
  return static_cast<int16_t>(m.zeros[i * m.zero_step] + (m.is_signed ? 128 : 0));
}

// Block of `rows` rows of pairs [p][kRows][2] times a strip of pairs [p][kColumns][2], added to or written to
// out[kRows][kColumns].
template <int kCount>
void Multiply(int64_t pairs, const int16_t* a, const int16_t* b, int32_t* c, int64_t c_stride, bool add) {
#if defined(__AVX2__)
  __m256i sums[kCount][2];
#pragma GCC unroll 6
  for (int i = 0; i < kCount; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
  for (int64_t p = 0; p < pairs; ++p, a += 2 * kRows, b += 2 * kColumns) {
    const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kColumns));
#pragma GCC unroll 6
    for (int i = 0; i < kCount; ++i) {
      int32_t pair;
      std::memcpy(&pair, a + 2 * i, sizeof(pair));
      const __m256i x = _mm256_set1_epi32(pair);
      sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(x, b0));
      sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(x, b1));
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kCount; ++i, c += c_stride) {
    auto* to = reinterpret_cast<__m256i*>(c);
    if (add) {
      sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_loadu_si256(to));
      sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_loadu_si256(to + 1));
    }
    _mm256_storeu_si256(to, sums[i][0]);
    _mm256_storeu_si256(to + 1, sums[i][1]);
  }
#else
  uint32_t sums[kCount][kColumns] = {};
  for (int64_t p = 0; p < pairs; ++p, a += 2 * kRows, b += 2 * kColumns) {
    for (int i = 0; i < kCount; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) {
        sums[i][j] += static_cast<uint32_t>(a[2 * i] * b[2 * j] + a[2 * i + 1] * b[2 * j + 1]);
      }
    }
  }
  for (int i = 0; i < kCount; ++i, c += c_stride) {
    for (int64_t j = 0; j < kColumns; ++j) {
      c[j] = static_cast<int32_t>((add ? static_cast<uint32_t>(c[j]) : 0U) + sums[i][j]);
    }
  }
#endif
}

using Kernel = void (*)(int64_t pairs, const int16_t* a, const int16_t* b, int32_t* c, int64_t c_stride, bool add);
constexpr Kernel kKernels[kRows] = {Multiply<1>, Multiply<2>, Multiply<3>, Multiply<4>, Multiply<5>, Multiply<6>};

// `count` codes, `step` apart, less `zero`: out[2 * width * (i / 2) + i % 2], and 0 to fill the last pair.
void CopyLine(const uint8_t* codes, int64_t step, int64_t count, uint8_t flip, int16_t zero, int64_t width,
              int16_t* out) {
  constexpr int64_t kPiece = 128;  // even
  int16_t values[kPiece];
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t piece = std::min(kPiece, count - begin);
    const uint8_t* from = codes + begin * step;
    if (step == 1) {  // with vectors
      for (int64_t i = 0; i < piece; ++i) values[i] = static_cast<int16_t>((from[i] ^ flip) - zero);
    } else {
      for (int64_t i = 0; i < piece; ++i) values[i] = static_cast<int16_t>((from[i * step] ^ flip) - zero);
    }
    if (piece % 2 != 0) values[piece] = 0;
    for (int64_t i = 0; i < piece; i += 2, out += 2 * width) std::memcpy(out, values + i, 2 * sizeof(int16_t));
  }
}

// Rows of a from column p on, kRows at a time: out[block][pair][row][2].
void CopyRows(const CodeMatrix& a, int64_t m, int64_t p, int64_t depth, int16_t* out) {
  const int64_t pairs = CeilDiv(depth, 2);
  for (int64_t i = 0; i < m; ++i) {
    CopyLine(a.at(i, p), a.transposed ? a.stride : 1, depth, FlipOf(a), ZeroOf(a, i), kRows,
             out + i / kRows * pairs * 2 * kRows + i % kRows * 2);
  }
}

#if defined(__AVX2__)
// Two rows of 16 codes, the second less useful where `two` is false: 16 pairs.
void CopyPairs(const uint8_t* row, const uint8_t* next, __m128i flip, __m256i zeros, int16_t* out) {
  const auto load = [&](const uint8_t* from) {
    const __m128i codes = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), flip);
    return _mm256_sub_epi16(_mm256_cvtepu8_epi16(codes), zeros);
  };
  const __m256i x = load(row), y = next != nullptr ? load(next) : _mm256_setzero_si256();
  const __m256i low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
}
#endif

// Columns [col, col + columns) of b from row p on: out[pair][column][2], anything past the last column.
void CopyStrip(const CodeMatrix& b, int64_t p, int64_t depth, int64_t col, int64_t columns, int16_t* out) {
  const uint8_t flip = FlipOf(b);
#if defined(__AVX2__)
  if (!b.transposed && columns == kColumns) {
    int16_t zeros[kColumns];
    for (int64_t j = 0; j < kColumns; ++j) zeros[j] = ZeroOf(b, col + j);
    const __m256i zero = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(zeros));
    const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
    for (int64_t i = 0; i < depth; i += 2, out += 2 * kColumns) {
      CopyPairs(b.at(p + i, col), i + 1 < depth ? b.at(p + i + 1, col) : nullptr, flips, zero, out);
    }
    return;
  }
#endif
  for (int64_t j = 0; j < columns; ++j) {
    CopyLine(b.at(p, col + j), b.transposed ? 1 : b.stride, depth, flip, ZeroOf(b, col + j), kColumns, out + 2 * j);
  }
}

// A thread's space for copies, kept from call to call.
int16_t* CopySpace(int64_t count) {
  thread_local std::vector<int16_t> space;
  if (static_cast<int64_t>(space.size()) < count) space.resize(static_cast<size_t>(count));
  return space.data();
}

// All rows times one strip.
void MultiplyStrip(const int16_t* rows, int64_t m, int64_t pairs, const int16_t* strip, int64_t columns, int32_t* c,
                   int64_t c_stride, bool add) {
  for (int64_t i = 0; i < m; i += kRows, rows += pairs * 2 * kRows) {
    const int64_t count = std::min(kRows, m - i);
    int32_t* to = c + i * c_stride;
    if (columns == kColumns) {
      kKernels[count - 1](pairs, rows, strip, to, c_stride, add);
      continue;
    }
    int32_t part[kRows * kColumns];
    kKernels[count - 1](pairs, rows, strip, part, kColumns, false);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t j = 0; j < columns; ++j) {
        const uint32_t before = add ? static_cast<uint32_t>(to[r * c_stride + j]) : 0U;
        to[r * c_stride + j] = static_cast<int32_t>(before + static_cast<uint32_t>(part[r * kColumns + j]));
      }
    }
  }
}

}  // namespace

void IntegerTile(const GemmSize& size, const CodeMatrix& a, const CodeMatrix& b, int32_t* c, int64_t c_stride) {
  for (int64_t i = 0; size.k == 0 && i < size.m; ++i) std::fill_n(c + i * c_stride, size.n, 0);
  const int64_t depth_limit = std::min(kDepth, size.k + size.k % 2);
  const int64_t rows_room = CeilDiv(size.m, kRows) * kRows * depth_limit;
  int16_t* rows = CopySpace(rows_room + depth_limit * kColumns);
  int16_t* strip = rows + rows_room;
  for (int64_t p = 0; p < size.k; p += kDepth) {
    const int64_t depth = std::min(kDepth, size.k - p), pairs = CeilDiv(depth, 2);
    CopyRows(a, size.m, p, depth, rows);
    for (int64_t j = 0; j < size.n; j += kColumns) {
      const int64_t columns = std::min(kColumns, size.n - j);
      CopyStrip(b, p, depth, j, columns, strip);
      MultiplyStrip(rows, size.m, pairs, strip, columns, c + j, c_stride, p > 0);
    }
  }
}

void IntegerGemmBatch(const KernelContext& context, const GemmSize& size, int64_t count,
                      const std::function<CodeOperands(int64_t)>& operands,
                      const std::function<void(const SumTile&)>& finish) {
  if (size.m == 0 || size.n == 0 || count == 0) return;
  const int64_t rows = TileSize(size.m, kTileRows), row_tiles = CeilDiv(size.m, rows);
  // Strips aren't shared by tiles of one matrix, so that columns are what is split when there are few tiles.
  const int64_t wanted = CeilDiv(kWantedTiles, row_tiles * count);
  const int64_t even = CeilDiv(CeilDiv(size.n, wanted), kColumns) * kColumns;
  const int64_t cols = std::min(std::min(kTileColumns, even), size.n), col_tiles = CeilDiv(size.n, cols);
  ScratchPool scratch(context, rows * cols * static_cast<int64_t>(sizeof(int32_t)));
  ParallelFor(count * row_tiles * col_tiles, [&](int64_t item) {
    SumTile tile;
    tile.product = item / row_tiles / col_tiles;
    tile.row = item / col_tiles % row_tiles * rows;
    tile.col = item % col_tiles * cols;
    tile.rows = std::min(rows, size.m - tile.row);
    tile.cols = std::min(cols, size.n - tile.col);
    auto lease = scratch.Borrow();
    tile.sums = lease.as<int32_t>();
    CodeOperands o = operands(tile.product);
    if (size.k > 0) {
      o.a.data = o.a.at(tile.row, 0);
      o.a.zeros += tile.row * o.a.zero_step;
      o.b.data = o.b.at(0, tile.col);
      o.b.zeros += tile.col * o.b.zero_step;
    }
    IntegerTile({tile.rows, tile.cols, size.k}, o.a, o.b, tile.sums, tile.cols);
    finish(tile);
  });
}

}  // namespace quant
