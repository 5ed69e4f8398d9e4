// Scale and zero-point rules, and quantizing one group of values.
//
//   code = saturate(round_half_even(x / scale) + zero_point)      x' = (code - zero_point) * scale
//
// Scales are computed in double and rounded once to the type they are stored in before codes are computed; the
// division is a float32 division by that stored scale.
#pragma once

#include <cstdint>
#include <span>

#include "libquant/base/status.h"
#include "libquant/ir/dtype.h"
#include "libquant/numerics/format.h"

namespace quant {

enum class Granularity { kTensor, kChannel, kGroup };
enum class Scheme { kSymmetric, kAsymmetric };
enum class NonFinite { kError, kClamp };

// How one weight is quantized.
struct QuantSpec {
  const Format* format = nullptr;
  Granularity granularity = Granularity::kGroup;
  int64_t group_size = 32;  // kGroup only
  Scheme scheme = Scheme::kSymmetric;
  DType scale_dtype = DType::kFloat;  // kFloat or kFloat16
  // 4-bit symmetric: also try max-magnitude / -8 and keep the scale with the smaller squared error.
  bool allow_negative_scales = false;
  NonFinite non_finite = NonFinite::kError;
};

struct ScaleZero {
  float scale = 1;  // exactly representable in QuantSpec::scale_dtype
  int32_t zero_point = 0;
};

// What a group of values says about its scale: streamed, in index order, so that per-tensor and per-channel scales
// need no copy of the weight.
struct RangeStats {
  float min = 0;  // of the values and 0
  float max = 0;
  float signed_absmax = 0;  // the value of largest magnitude, positive on a tie
  int64_t non_finite = 0;
  void Add(std::span<const float> values);
  void Merge(const RangeStats& later);  // order matters only for nothing: the result is exact
};

// Scale and zero point by the rules of the spec, for formats in AllFormats. `values` is needed only where two scales
// compete (4-bit symmetric with negative scales allowed); pass what the stats were made of.
// Unsupported when the scale overflows the stored type.
StatusOr<ScaleZero> ChooseScale(const QuantSpec& spec, const RangeStats& stats, std::span<const float> values);

// codes[i] for values[i]; NaN gives the zero point.
void QuantizeValues(const Format& format, ScaleZero sz, std::span<const float> values, std::span<int32_t> codes);

}  // namespace quant
