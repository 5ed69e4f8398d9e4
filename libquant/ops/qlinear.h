// What the QLinear operators of com.microsoft have in common.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "libquant/ops/inputs.h"
#include "libquant/ops/requantize.h"

namespace quant {

// saturate(round_half_even(value)); NaN gives the lowest code.
template <typename T>
T RoundToCode(float value) {
  constexpr float low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return static_cast<T>(static_cast<int32_t>(std::rint(value > low ? (value < high ? value : high) : low)));
}

// A code for each of the 256 a byte may be.
using CodeTable = std::array<uint8_t, 256>;

// table[x] = quantized f(dequantized x), both of the same type.
template <typename F>
CodeTable MakeCodeTable(const CodeScale& x, const CodeScale& y, F f) {
  CodeTable table;
  for (int32_t byte = 0; byte < 256; ++byte) {
    const int32_t code = x.dtype == DType::kInt8 && byte > 127 ? byte - 256 : byte;
    const float value = x.scale * static_cast<float>(code - x.zero_point);
    table[static_cast<size_t>(byte)] = static_cast<uint8_t>(QuantizeValue(f(value), y));
  }
  return table;
}

inline OpDef QLinear(std::string_view name, int min_inputs, Status (*eval)(KernelContext&), const SchemaRow& schema,
                     std::string_view summary) {
  return {.name = name,
          .domain = "com.microsoft",
          .since = {1},
          .min_inputs = min_inputs,
          .eval = eval,
          .role = Quantizer{},
          .exactness = Exactness::kRounding,
          .schema = &schema,
          .summary = summary};
}

}  // namespace quant
