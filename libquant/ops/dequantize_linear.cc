// DequantizeLinear: y = (x - zero_point) * scale, in float32, rounded once to the output's type.
#include <algorithm>

#include "libquant/ops/float_view.h"
#include "libquant/ops/quant_layout.h"

namespace quant {
namespace {

// Codes are int32 or, for the small floating-point formats, float32.
template <typename Code>
void DequantizeRun(const ScaleRun& run, const QuantParametersOf<Code>& parameters, const Code* codes, float* out) {
  const float* scales = parameters.scales.data() + run.scale;
  const Code* zero_points = parameters.zero_points.data() + run.scale;
  if (run.scale_per_element) {
    for (int64_t i = 0; i < run.length; ++i) out[i] = static_cast<float>(codes[i] - zero_points[i]) * scales[i];
  } else {
    const float scale = scales[0];
    const Code zero_point = zero_points[0];
    for (int64_t i = 0; i < run.length; ++i) out[i] = static_cast<float>(codes[i] - zero_point) * scale;
  }
}

template <typename Code>
Status Dequantize(KernelContext& context, const QuantParametersOf<Code>& parameters, DType dtype) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const ScaleLayout layout, ScaleLayout::Read(context, x.dims(), context.in(1)));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, dtype, x.dims()));
  std::byte* out = y->mutable_bytes().data();
  layout.ForEach(true, [&](const ScaleRun& run) {
    Code codes[ScaleLayout::kMaxRun];
    LoadCodes(x, run.offset, run.length, codes);
    if (dtype == DType::kFloat) {
      DequantizeRun(run, parameters, codes, reinterpret_cast<float*>(out) + run.offset);
    } else {
      float values[ScaleLayout::kMaxRun];
      DequantizeRun(run, parameters, codes, values);
      RoundFloats(values, run.length, dtype, out + run.offset * 2);
    }
  });
  return OkStatus();
}

StatusOr<DType> OutputType(const KernelContext& context) {
  const DType scale = context.in(1).dtype();
  const int64_t asked = context.attributes().Int("output_dtype", 0);
  if (asked == 0) return scale;
  if (asked < 0 || asked > 64) return DataError("output_dtype is {}", asked);
  return DTypeFromNumber(static_cast<int32_t>(asked));
}

Status EvalDequantizeLinear(KernelContext& context) {
  const Tensor &x = context.in(0), &scale = context.in(1);
  const Tensor* zero_point = context.input(2);
  const bool small_float = IsSmallFloat(x.dtype()) && x.dtype() != DType::kFloat8E8M0;
  if (!IsCodeType(x.dtype()) && !small_float) {
    return Unsupported("codes of type {} are not supported", NameOf(x.dtype()));
  }
  if (zero_point != nullptr && zero_point->dtype() != x.dtype()) {
    return DataError("zero points are {} where codes are {}", NameOf(zero_point->dtype()), NameOf(x.dtype()));
  }
  ASSIGN_OR_RETURN(const DType dtype, OutputType(context));
  if (dtype != DType::kFloat && dtype != DType::kFloat16 && dtype != DType::kBfloat16) {
    return Unsupported("dequantizing to {} is not supported", NameOf(dtype));
  }
  if (small_float) {
    ASSIGN_OR_RETURN(const FloatQuantParameters parameters, ReadFloatQuantParameters(scale, zero_point));
    return Dequantize(context, parameters, dtype);
  }
  ASSIGN_OR_RETURN(const QuantParameters parameters, ReadQuantParameters(scale, zero_point));
  if (x.dtype() == DType::kInt32 &&
      std::any_of(parameters.zero_points.begin(), parameters.zero_points.end(), [](int32_t z) { return z != 0; })) {
    return DataError("int32 codes take no zero point but 0");
  }
  return Dequantize(context, parameters, dtype);
}

}  // namespace

const OpDef& DequantizeLinearOp() {
  static const OpDef def = {
      .name = "DequantizeLinear",
      .since = {10, 13, 19, 21, 23, 24, 25},
      .min_inputs = 2,
      .eval = EvalDequantizeLinear,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Codes to numbers: per tensor, axis or block; 2 to 16 bits, int32, float8, float4",
  };
  return def;
}

}  // namespace quant
