// DynamicQuantizeLinear's formula, which DynamicQuantizeMatMul has too.
#pragma once

#include "libquant/ops/requantize.h"

namespace quant {

// uint8 codes over the values' own range, widened to hold 0:
//   scale = (max - min) / 255        zero_point = saturate(round(-min / scale))
CodeScale DynamicScale(const float* values, int64_t count);
void QuantizeDynamic(const float* values, int64_t count, const CodeScale& scale, uint8_t* codes);

}  // namespace quant
