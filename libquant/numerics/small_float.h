// Floating-point formats of 8 and 4 bits: float8 E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0 and float4 E2M1.
// A value is (-1)^sign * 2^(exponent - bias) * 1.mantissa, subnormal where the exponent field is 0; E8M0 is a bare
// power of two. FN: no infinities; UZ: no negative zero, whose code means NaN. E2M1 has neither infinities nor NaN.
#pragma once

#include <array>
#include <cstdint>

#include "libquant/ir/dtype.h"

namespace quant {

// How E8M0 takes what lies between two powers of two; nearest: halves up.
enum class PowerRounding { kUp, kDown, kNearest };

struct SmallFloatRounding {
  bool saturate = true;  // what is out of range becomes the largest number, else infinity or NaN
  PowerRounding power = PowerRounding::kUp;
};

bool IsSmallFloat(DType dtype);

// The values of all codes of a small format, NaN and infinities among them; of E2M1 the first 16 count.
const std::array<float, 256>& SmallFloatValues(DType dtype);

// The code nearest to a value, halves to even. E2M1 always saturates and has -0 for NaN; E8M0 drops the sign.
uint8_t SmallFloatCode(DType dtype, double value, const SmallFloatRounding& rounding = {});

}  // namespace quant
