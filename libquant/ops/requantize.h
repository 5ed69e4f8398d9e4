// From sums of products of codes back to codes, as ONNX Runtime does it:
//   y = saturate(round_half_even(float32(sum) * scale) + zero_point)         scale = a_scale * b_scale / y_scale
// all in float32; NaN gives the lowest code.
#pragma once

#include "libquant/ops/op_def.h"
#include "libquant/ops/quant_layout.h"

namespace quant {

// The scale and zero point of a whole tensor of 8-bit codes.
struct CodeScale {
  float scale = 1;
  int32_t zero_point = 0;
  DType dtype = DType::kUint8;
};

// DataError unless there is one scale and at most one zero point of this type; Unsupported for codes not of 8 bits.
StatusOr<CodeScale> ReadCodeScale(const Tensor& scale, const Tensor* zero_point, DType dtype);
// The same where the zero point says what type the codes are.
inline StatusOr<CodeScale> ReadCodeScale(const Tensor& scale, const Tensor& zero_point) {
  return ReadCodeScale(scale, &zero_point, zero_point.dtype());
}

// The only element of a scale. DataError unless it is one of a floating-point type.
StatusOr<float> ReadScale(const Tensor& scale);

// sums[i] += number, wrapping around.
inline void AddToSums(int32_t number, int64_t count, int32_t* sums) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(number));
  }
}

// y[i] for scales[i * scale_step].
void RequantizeRow(const int32_t* sums, int64_t count, const float* scales, int64_t scale_step, const CodeScale& y,
                   uint8_t* out);

// saturate(round_half_even(value / scale) + zero_point), the definition of QuantizeLinear.
inline int32_t QuantizeValue(float value, const CodeScale& y) {
  const CodeRange range = CodeRangeOf(y.dtype);
  const auto low = static_cast<float>(range.min - y.zero_point), high = static_cast<float>(range.max - y.zero_point);
  const float rounded = __builtin_rintf(value / y.scale);
  return static_cast<int32_t>(rounded > low ? (rounded < high ? rounded : high) : low) + y.zero_point;
}

}  // namespace quant
