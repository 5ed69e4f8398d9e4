#include "libquant/ops/dynamic_quantize.h"

#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 32768;

Status EvalDynamicQuantizeLinear(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.dtype() != DType::kFloat) return Unsupported("quantizing {} is not supported", NameOf(x.dtype()));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DType::kUint8, x.dims()));
  ASSIGN_OR_RETURN(Tensor * scale_out, context.Allocate(1, DType::kFloat, {}));
  ASSIGN_OR_RETURN(Tensor * zero_out, context.Allocate(2, DType::kUint8, {}));
  const CodeScale scale = DynamicScale(x.data<float>().data(), x.size());
  scale_out->mutable_data<float>()[0] = scale.scale;
  zero_out->mutable_data<uint8_t>()[0] = static_cast<uint8_t>(scale.zero_point);
  QuantizeDynamic(x.data<float>().data(), x.size(), scale, y->mutable_data<uint8_t>().data());
  return OkStatus();
}

}  // namespace

CodeScale DynamicScale(const float* values, int64_t count) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  CodeScale out;
  // A tensor of zeros has any scale.
  out.scale = high == low ? 1.0F : (high - low) / 255.0F;
  const float zero_point = std::clamp(std::rint(-low / out.scale), 0.0F, 255.0F);
  // An infinite range has no zero point; NaN compares false and gives 0.
  out.zero_point = static_cast<int32_t>(zero_point >= 0 ? zero_point : 0);
  return out;
}

void QuantizeDynamic(const float* values, int64_t count, const CodeScale& scale, uint8_t* codes) {
  const auto shift = static_cast<float>(scale.zero_point);
  ParallelFor(CeilDiv(count, kPiece), [&](int64_t piece) {
    for (int64_t i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i) {
      const float code = std::rint(values[i] / scale.scale) + shift;
      codes[i] = static_cast<uint8_t>(code > 0 ? (code < 255 ? code : 255.0F) : 0.0F);
    }
  });
}

const OpDef& DynamicQuantizeLinearOp() {
  static const OpDef def = {
      .name = "DynamicQuantizeLinear",
      .since = {11},
      .min_inputs = 1,
      .eval = EvalDynamicQuantizeLinear,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Quantizes to uint8 with the scale and zero point of the tensor's own range",
  };
  return def;
}

}  // namespace quant
