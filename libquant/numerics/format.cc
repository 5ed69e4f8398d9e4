#include "libquant/numerics/format.h"

#include <array>
#include <cstdlib>

namespace quant {
namespace {

// Signed and unsigned rows of a width stand side by side: WithSign relies on it.
constexpr std::array<Format, 6> kRows = {{
    {"int4", DType::kInt4, 4, true, -8, 7, 21},
    {"uint4", DType::kUint4, 4, false, 0, 15, 21},
    {"int8", DType::kInt8, 8, true, -128, 127, 10},
    {"uint8", DType::kUint8, 8, false, 0, 255, 10},
    {"int16", DType::kInt16, 16, true, -32768, 32767, 21},
    {"uint16", DType::kUint16, 16, false, 0, 65535, 21},
}};

}  // namespace

std::span<const Format> AllFormats() { return kRows; }

const Format* FindFormat(std::string_view name) {
  for (const Format& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const Format* FindFormat(DType dtype) {
  for (const Format& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

const Format& WithSign(const Format& format, bool is_signed) {
  for (const Format& row : kRows) {
    if (row.bits == format.bits && row.is_signed == is_signed) return row;
  }
  std::abort();  // every width has both rows
}

}  // namespace quant
