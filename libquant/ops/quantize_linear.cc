// QuantizeLinear: y = saturate(round_half_even(x / scale) + zero_point), with a float32 division. Infinities saturate,
// NaN gives the lowest code. To float8 and float4: y = round(x / scale + zero_point).
#include <algorithm>
#include <cmath>

#include "libquant/ops/float_view.h"
#include "libquant/ops/quant_layout.h"

namespace quant {
namespace {

// Bounds are exact in float32 for codes of at most 16 bits. A comparison with NaN is false, which gives the lower one.
inline int32_t Quantize(float x, float scale, int32_t zero_point, CodeRange range) {
  const float rounded = std::rint(x / scale);
  const auto low = static_cast<float>(range.min - zero_point), high = static_cast<float>(range.max - zero_point);
  const float clamped = rounded > low ? (rounded < high ? rounded : high) : low;
  return static_cast<int32_t>(clamped) + zero_point;
}

void QuantizeRun(const ScaleRun& run, const QuantParameters& parameters, CodeRange range, const float* x,
                 int32_t* codes) {
  const float* scales = parameters.scales.data() + run.scale;
  const int32_t* zero_points = parameters.zero_points.data() + run.scale;
  if (run.scale_per_element) {
    for (int64_t i = 0; i < run.length; ++i) codes[i] = Quantize(x[i], scales[i], zero_points[i], range);
  } else {
    const float scale = scales[0];
    const int32_t zero_point = zero_points[0];
    for (int64_t i = 0; i < run.length; ++i) codes[i] = Quantize(x[i], scale, zero_point, range);
  }
}

void QuantizeRun(const ScaleRun& run, const FloatQuantParameters& parameters, const float* x, float* out) {
  const int64_t step = run.scale_per_element ? 1 : 0;
  for (int64_t i = 0; i < run.length; ++i) {
    const auto at = static_cast<size_t>(run.scale + i * step);
    out[i] = x[i] / parameters.scales[at] + parameters.zero_points[at];
  }
}

StatusOr<DType> OutputType(const KernelContext& context) {
  const Tensor* zero_point = context.input(2);
  const int64_t number = context.attributes().Int("output_dtype", 0);
  if (number < 0 || number > 64) return DataError("output_dtype is {}", number);
  const DType asked = DTypeFromNumber(static_cast<int32_t>(number));
  if (zero_point == nullptr) return number == 0 ? DType::kUint8 : asked;
  if (number != 0 && asked != zero_point->dtype()) {
    return DataError("output_dtype is {} where the zero point is {}", NameOf(asked), NameOf(zero_point->dtype()));
  }
  return zero_point->dtype();
}

// Elements [offset, offset + count) as float32.
void LoadFloats(const Tensor& x, const float* floats, int64_t offset, int64_t count, float* out) {
  if (floats != nullptr) {
    std::copy_n(floats + offset, count, out);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(x.data<int32_t>()[static_cast<size_t>(offset + i)]);
  }
}

// Output 0 by runs: body(run, values, out) quantizes a run of float32 values.
template <typename F>
Status ForRuns(KernelContext& context, DType dtype, F body) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const ScaleLayout layout, ScaleLayout::Read(context, x.dims(), context.in(1)));
  FloatInput<float> floats;
  if (x.dtype() != DType::kInt32) {
    ASSIGN_OR_RETURN(floats, FloatInput<float>::Of(context, &x));
  }
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, dtype, x.dims()));
  const bool whole_bytes = InfoOf(dtype).bits >= 8;
  if (!whole_bytes) std::fill(y->mutable_bytes().begin(), y->mutable_bytes().end(), std::byte{0});
  std::byte* out = y->mutable_bytes().data();
  // Two threads must not share a byte.
  layout.ForEach(whole_bytes, [&](const ScaleRun& run) {
    float values[ScaleLayout::kMaxRun];
    LoadFloats(x, floats.data(), run.offset, run.length, values);
    body(run, values, out);
  });
  return OkStatus();
}

Status EvalQuantizeLinear(KernelContext& context) {
  ASSIGN_OR_RETURN(const DType dtype, OutputType(context));
  if (IsSmallFloat(dtype) && dtype != DType::kFloat8E8M0) {
    ASSIGN_OR_RETURN(const FloatQuantParameters parameters, ReadFloatQuantParameters(context.in(1), context.input(2)));
    const SmallFloatRounding rounding = {.saturate = context.attributes().Int("saturate", 1) != 0};
    return ForRuns(context, dtype, [&](const ScaleRun& run, const float* values, std::byte* out) {
      float codes[ScaleLayout::kMaxRun];
      QuantizeRun(run, parameters, values, codes);
      StoreCodes(codes, run.offset, run.length, dtype, out, rounding);
    });
  }
  if (!IsCodeType(dtype) || dtype == DType::kInt32)
    return Unsupported("quantizing to {} is not supported", NameOf(dtype));
  ASSIGN_OR_RETURN(const QuantParameters parameters, ReadQuantParameters(context.in(1), context.input(2)));
  const CodeRange range = CodeRangeOf(dtype);
  return ForRuns(context, dtype, [&](const ScaleRun& run, const float* values, std::byte* out) {
    int32_t codes[ScaleLayout::kMaxRun];
    QuantizeRun(run, parameters, range, values, codes);
    StoreCodes(codes, run.offset, run.length, dtype, out);
  });
}

}  // namespace

const OpDef& QuantizeLinearOp() {
  static const OpDef def = {
      .name = "QuantizeLinear",
      .since = {10, 13, 19, 21, 23, 24, 25},
      .min_inputs = 2,
      .eval = EvalQuantizeLinear,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Numbers to codes: per tensor, axis or block; 2 to 16 bits, float8, float4",
  };
  return def;
}

}  // namespace quant
