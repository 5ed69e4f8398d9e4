#include "libquant/ops/requantize.h"

#include <cmath>

#include "libquant/ops/float_view.h"

namespace quant {

StatusOr<float> ReadScale(const Tensor& scale) {
  if (scale.size() != 1) return DataError("a scale of {} where one belongs", ToString(scale.dims()));
  float value = 0;
  RETURN_IF_ERROR(ConvertFloats(scale, &value));
  return value;
}

StatusOr<CodeScale> ReadCodeScale(const Tensor& scale, const Tensor* zero_point, DType dtype) {
  if (dtype != DType::kInt8 && dtype != DType::kUint8) {
    return Unsupported("codes of type {} are not supported", NameOf(dtype));
  }
  CodeScale out;
  out.dtype = dtype;
  ASSIGN_OR_RETURN(out.scale, ReadScale(scale));
  if (zero_point == nullptr) return out;
  if (zero_point->dtype() != dtype) {
    return DataError("a zero point of {} for codes of {}", NameOf(zero_point->dtype()), NameOf(dtype));
  }
  if (zero_point->size() != 1) return DataError("a zero point of {} where one belongs", ToString(zero_point->dims()));
  LoadCodes(*zero_point, 0, 1, &out.zero_point);
  return out;
}

void RequantizeRow(const int32_t* sums, int64_t count, const float* scales, int64_t scale_step, const CodeScale& y,
                   uint8_t* out) {
  const CodeRange range = CodeRangeOf(y.dtype);
  const auto low = static_cast<float>(range.min - y.zero_point), high = static_cast<float>(range.max - y.zero_point);
  const auto one = [&](int32_t sum, float scale) {
    const float value = static_cast<float>(sum) * scale;
    const float clamped = value > low ? (value < high ? value : high) : low;
    return static_cast<uint8_t>(static_cast<int32_t>(std::rint(clamped)) + y.zero_point);
  };
  if (scale_step == 0) {
    const float scale = scales[0];
    for (int64_t i = 0; i < count; ++i) out[i] = one(sums[i], scale);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = one(sums[i], scales[i]);
  }
}

}  // namespace quant
