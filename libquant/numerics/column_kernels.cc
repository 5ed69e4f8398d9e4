#include "libquant/numerics/column_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quant {
namespace {

// Columns done together: their accumulators stay in the first-level cache.
constexpr int64_t kBlock = 512;

inline float Clamp(float v, float low, float high) {
  v = v < low ? low : v;
  return v > high ? high : v;
}

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
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = r0; r < r1; ++r) out[c * rows + r] = in[r * columns + c];
    }
  }
}

void TransposeFloats(const float* in, int64_t in_stride, int64_t count, int64_t length, float* out,
                     int64_t out_stride) {
  // Sixteen at a time: one cache line of the output per step along k.
  constexpr int64_t kTile = 16;
  for (int64_t j0 = 0; j0 < count; j0 += kTile) {
    const int64_t j1 = std::min(count, j0 + kTile);
    for (int64_t k = 0; k < length; ++k) {
      for (int64_t j = j0; j < j1; ++j) out[k * out_stride + j] = in[j * in_stride + k];
    }
  }
}

}  // namespace quant
