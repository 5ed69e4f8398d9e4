// Number formats as rows. Kernels loop over rows, never over ifs on a format's name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "libquant/ir/dtype.h"

namespace quant {

struct Format {
  std::string_view name;  // as on the command line
  DType dtype;
  int bits;
  bool is_signed;
  int32_t qmin;
  int32_t qmax;
  int64_t min_opset;  // of DequantizeLinear that takes it as codes
};

std::span<const Format> AllFormats();
// Null when unknown.
const Format* FindFormat(std::string_view name);
const Format* FindFormat(DType dtype);
// The format of the same width with the other signedness.
const Format& WithSign(const Format& format, bool is_signed);

}  // namespace quant
