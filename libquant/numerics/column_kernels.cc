#include "libquant/numerics/column_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace quant {
namespace {

// Columns done together: their accumulators stay in the first-level cache.
constexpr int64_t kBlock = 512;

inline float Clamp(float v, float low, float high) {
  v = v < low ? low : v;
  return v > high ? high : v;
}

// Transposing goes by blocks of this many rows and columns.
constexpr int64_t kSide = 8;

#ifdef __AVX2__
inline void TransposeBlock(const uint8_t* in, int64_t in_stride, uint8_t* out, int64_t out_stride) {
  const auto row = [&](int64_t r) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + r * in_stride)); };
  const __m128i a = _mm_unpacklo_epi8(row(0), row(1));
  const __m128i b = _mm_unpacklo_epi8(row(2), row(3));
  const __m128i c = _mm_unpacklo_epi8(row(4), row(5));
  const __m128i d = _mm_unpacklo_epi8(row(6), row(7));
  const __m128i ab_low = _mm_unpacklo_epi16(a, b);
  const __m128i ab_high = _mm_unpackhi_epi16(a, b);
  const __m128i cd_low = _mm_unpacklo_epi16(c, d);
  const __m128i cd_high = _mm_unpackhi_epi16(c, d);
  const __m128i pairs[4] = {_mm_unpacklo_epi32(ab_low, cd_low), _mm_unpackhi_epi32(ab_low, cd_low),
                            _mm_unpacklo_epi32(ab_high, cd_high), _mm_unpackhi_epi32(ab_high, cd_high)};
  for (int64_t i = 0; i < 4; ++i) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 2 * i * out_stride), pairs[i]);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + (2 * i + 1) * out_stride), _mm_srli_si128(pairs[i], 8));
  }
}

inline void TransposeBlock(const float* in, int64_t in_stride, float* out, int64_t out_stride) {
  // Rows i and i + 4 side by side, then each half is a 4 x 4 transpose.
  for (int64_t half = 0; half < 2; ++half) {
    __m256 rows[4];
    for (int64_t i = 0; i < 4; ++i) {
      const float* from = in + i * in_stride + 4 * half;
      rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + 4 * in_stride), 1);
    }
    const __m256 a = _mm256_unpacklo_ps(rows[0], rows[1]);
    const __m256 b = _mm256_unpackhi_ps(rows[0], rows[1]);
    const __m256 c = _mm256_unpacklo_ps(rows[2], rows[3]);
    const __m256 d = _mm256_unpackhi_ps(rows[2], rows[3]);
    float* to = out + 4 * half * out_stride;
    _mm256_storeu_ps(to, _mm256_shuffle_ps(a, c, 0x44));
    _mm256_storeu_ps(to + out_stride, _mm256_shuffle_ps(a, c, 0xee));
    _mm256_storeu_ps(to + 2 * out_stride, _mm256_shuffle_ps(b, d, 0x44));
    _mm256_storeu_ps(to + 3 * out_stride, _mm256_shuffle_ps(b, d, 0xee));
  }
}
#else
template <typename T>
void TransposeBlock(const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) out[i * out_stride + j] = in[j * in_stride + i];
  }
}
#endif

}  // namespace

int64_t CountNonFinite(const Panel& x) {
  int64_t total = 0;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* __restrict row = x.data + r * x.stride;
    for (int64_t c0 = 0; c0 < x.columns; c0 += kBlock) {
      const int64_t end = std::min(x.columns, c0 + kBlock);
      int32_t count = 0;
      for (int64_t c = c0; c < end; ++c) {
        const auto magnitude = static_cast<int32_t>(std::bit_cast<uint32_t>(row[c]) & 0x7fffffffU);
        count += magnitude >= 0x7f800000;
      }
      total += count;
    }
  }
  return total;
}

void ColumnRange(const Panel& x, float* min, float* max) {
  for (int64_t c0 = 0; c0 < x.columns; c0 += kBlock) {
    const int64_t n = std::min(kBlock, x.columns - c0);
    float* __restrict low = min + c0;
    float* __restrict high = max + c0;
    for (int64_t r = 0; r < x.rows; ++r) {
      const float* __restrict row = x.data + r * x.stride + c0;
      for (int64_t c = 0; c < n; ++c) {
        const float v = row[c];
        low[c] = v < low[c] ? v : low[c];
        high[c] = v > high[c] ? v : high[c];
      }
    }
  }
}

void ColumnErrors(const Panel& x, const float* scale, int32_t qmin, int32_t qmax, double* errors) {
  const auto low = static_cast<float>(qmin);
  const auto high = static_cast<float>(qmax);
  for (int64_t c0 = 0; c0 < x.columns; c0 += kBlock) {
    const int64_t n = std::min(kBlock, x.columns - c0);
    const float* __restrict s = scale + c0;
    double* __restrict sum = errors + c0;
    for (int64_t r = 0; r < x.rows; ++r) {
      const float* __restrict row = x.data + r * x.stride + c0;
      for (int64_t c = 0; c < n; ++c) {
        const float back = Clamp(std::nearbyint(row[c] / s[c]), low, high) * s[c];
        const double error = static_cast<double>(row[c]) - static_cast<double>(back);
        sum[c] += error * error;
      }
    }
  }
}

void ColumnCodes(const Panel& x, const float* scale, const int32_t* zero, int32_t qmin, int32_t qmax, uint8_t* codes) {
  for (int64_t c0 = 0; c0 < x.columns; c0 += kBlock) {
    const int64_t n = std::min(kBlock, x.columns - c0);
    const float* __restrict s = scale + c0;
    const int32_t* __restrict z = zero + c0;
    for (int64_t r = 0; r < x.rows; ++r) {
      const float* __restrict row = x.data + r * x.stride + c0;
      uint8_t* __restrict out = codes + r * x.columns + c0;
      for (int64_t c = 0; c < n; ++c) {
        int32_t q = static_cast<int32_t>(std::nearbyint(row[c] / s[c])) + z[c];
        q = q < qmin ? qmin : q;
        q = q > qmax ? qmax : q;
        out[c] = static_cast<uint8_t>(q);
      }
    }
  }
}

void TransposeBytes(const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out) {
  for (int64_t r = 0; r < rows; r += kSide) {
    const int64_t height = std::min(kSide, rows - r);
    for (int64_t c = 0; c < columns; c += kSide) {
      const int64_t width = std::min(kSide, columns - c);
      const uint8_t* from = in + r * columns + c;
      uint8_t* to = out + c * rows + r;
      if (height == kSide && width == kSide) {
        TransposeBlock(from, columns, to, rows);
        continue;
      }
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t j = 0; j < height; ++j) to[i * rows + j] = from[j * columns + i];
      }
    }
  }
}

void TransposeFloats(const float* in, int64_t in_stride, int64_t count, int64_t length, float* out,
                     int64_t out_stride) {
  for (int64_t k = 0; k < length; k += kSide) {
    const int64_t width = std::min(kSide, length - k);
    for (int64_t j = 0; j < count; j += kSide) {
      const int64_t height = std::min(kSide, count - j);
      const float* from = in + j * in_stride + k;
      float* to = out + k * out_stride + j;
      if (height == kSide && width == kSide) {
        TransposeBlock(from, in_stride, to, out_stride);
        continue;
      }
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t n = 0; n < height; ++n) to[i * out_stride + n] = from[n * in_stride + i];
      }
    }
  }
}

}  // namespace quant
