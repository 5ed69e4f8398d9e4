// The scale and zero-point rules of a QuantSpec, for many groups at once: arrays with one element per group.
//
//   symmetric    scale = max(max / P, -min / Q), with P = Q = 127 for 8 bits (32767 for 16) and P = 7, Q = 8 for
//                4 bits; zero point 0, or 2^(bits-1) for unsigned codes
//   negative     scale = v / -8, v the value of largest magnitude (positive on a tie)
//   asymmetric   scale = (max - min) / (levels - 1); zero point = clamp(round_half_even(qmin - min / scale)), the
//                division in double by the stored scale
//
// min <= 0 <= max always. Each scale is computed in double and rounded once to the stored type; below float32's
// smallest normal number, or float16's smallest number at all, it is that number with the same sign; a group of zeros
// has scale 1. float16's subnormal numbers are taken: raised to the smallest normal one, the scales of ordinary small
// weights (1e-3 in 8 bits) would lose them 10 dB and more.
#pragma once

#include <cstdint>

#include "libquant/numerics/quantize.h"

namespace quant {

struct ScaleRule {
  Format format;  // of the codes: asymmetric int4 has uint4 codes
  bool symmetric = true;
  bool try_negative = false;  // both scales are tried, the smaller squared error wins
  bool half_scales = false;
  int32_t qmin = 0;  // codes saturate here: narrower than the format's range for symmetric 8 and 16 bits
  int32_t qmax = 0;
  int32_t zero_point = 0;  // symmetric only
  double positive_levels = 0;
  double negative_levels = 0;
};

ScaleRule RuleOf(const QuantSpec& spec);

// `count` groups. False when a scale, or a code times its scale, overflows float16.
bool ChooseScales(const ScaleRule& rule, int64_t count, const float* min, const float* max, float* scale,
                  int32_t* zero_point);
// The other candidates where rule.try_negative. They never overflow where ChooseScales did not.
void ChooseNegativeScales(const ScaleRule& rule, int64_t count, const float* min, const float* max, float* scale);

}  // namespace quant
