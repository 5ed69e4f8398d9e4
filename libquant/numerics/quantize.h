// Scale and zero-point rules, and quantizing one group of values.
//
//   code = saturate(round_half_even(x / scale) + zero_point)      x' = (code - zero_point) * scale
//
// Scales are computed in double and rounded once to the type they are stored in before codes are computed; the
// division is a float32 division by that stored scale. scale_rule.h has the rules.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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
  // Symmetric only: codes reach from -most_code to most_code about the zero point; 0: as far as the format goes.
  int32_t most_code = 0;
  // Symmetric, kTensor and kChannel only: no scale is smaller than that of its channel here. Null: none is given.
  std::shared_ptr<const std::vector<float>> least_scales = nullptr;
};

struct ScaleZero {
  float scale = 1;  // exactly representable in QuantSpec::scale_dtype
  int32_t zero_point = 0;
};

// What a group of values says about its scale: streamed, so that per-tensor and per-channel scales need no copy of
// the weight. Exact: the order of Add and Merge does not matter.
struct RangeStats {
  float min = 0;  // of the finite values and 0
  float max = 0;
  int64_t non_finite = 0;
  bool positive_infinity = false;  // seen
  bool negative_infinity = false;
  void Add(std::span<const float> values);
  void AddOne(float value);
  void Merge(const RangeStats& other);
  float absmax() const { return max >= -min ? max : -min; }
  // The value of largest magnitude, positive on a tie.
  float signed_absmax() const { return max >= -min ? max : min; }
  // What NonFinite::kClamp makes of infinities: the largest finite magnitude of the same group, with their sign.
  void TakeInfinitiesAsLargest();
};

// The format of the codes: the spec's, but uint4 for asymmetric int4.
const Format& CodeFormat(const QuantSpec& spec);

// Scale and zero point by the rules of the spec, for formats in AllFormats. `values` is needed only where two scales
// compete (4-bit symmetric with negative scales allowed); pass what the stats were made of.
// Unsupported when the scale overflows the stored type; DataError when the values hold NaN or infinity, unless the
// spec says to clamp: then NaN counts as 0 and infinities as RangeStats says.
StatusOr<ScaleZero> ChooseScale(const QuantSpec& spec, const RangeStats& stats, std::span<const float> values);

// codes[i] for values[i]; NaN gives the zero point, infinities saturate.
void QuantizeValues(const Format& format, ScaleZero sz, std::span<const float> values, std::span<int32_t> codes);

}  // namespace quant
