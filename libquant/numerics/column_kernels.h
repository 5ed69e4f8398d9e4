// The loops over weights. A panel is a block of a weight seen as [reduction, channels]: a row per reduction index,
// channels contiguous. Every loop runs along the channels, so a group per channel needs no horizontal step, each
// channel's sums run in index order, and the compiler vectorizes them without changing a bit. Values are finite.
#pragma once

#include <cstdint>

namespace quant {

struct Panel {
  const float* data = nullptr;
  int64_t stride = 0;  // floats from one row to the next
  int64_t rows = 0;
  int64_t columns = 0;
};

// NaNs and infinities in the panel.
int64_t CountNonFinite(const Panel& x);

// Widens min[c] and max[c] to the values of column c.
void ColumnRange(const Panel& x, float* min, float* max);

// Adds to errors[c] the squared errors of column c under scale[c] with zero point 0 and codes in [qmin, qmax]. The
// dequantized value is the float32 product code * scale; the difference and its square are in double.
void ColumnErrors(const Panel& x, const float* scale, int32_t qmin, int32_t qmax, double* errors);

// codes[r * x.columns + c] = clamp(round_half_even(x / scale[c]) + zero[c], qmin, qmax), its low 8 bits.
// |x / scale| must be below 2^30, which every scale of ScaleRule sees to.
void ColumnCodes(const Panel& x, const float* scale, const int32_t* zero, int32_t qmin, int32_t qmax, uint8_t* codes);

// out[c * rows + r] = in[r * columns + c].
void TransposeBytes(const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out);
// out[k * out_stride + j] = in[j * in_stride + k] for j < count, k < length.
void TransposeFloats(const float* in, int64_t in_stride, int64_t count, int64_t length, float* out, int64_t out_stride);

}  // namespace quant
