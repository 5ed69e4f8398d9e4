#include "libquant/ir/shape.h"

#include <fmt/ranges.h>

namespace quant {

std::optional<Dims> StaticDims(const Shape& shape) {
  Dims out;
  for (const Dim& d : shape) {
    if (!d.known()) return std::nullopt;
    out.push_back(d.value);
  }
  return out;
}

Shape ShapeOf(std::span<const int64_t> dims) {
  Shape out;
  for (int64_t d : dims) out.push_back({d, {}});
  return out;
}

std::string ToString(std::span<const int64_t> dims) {
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

std::string ToString(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string out;
  for (const Dim& d : shape) {
    if (!out.empty()) out += " x ";
    out += d.known() ? std::to_string(d.value) : d.symbol.empty() ? "?" : d.symbol;
  }
  return out;
}

}  // namespace quant
