// Shapes as a graph knows them before it runs: each dimension a number, a name, or unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quant {

using Dims = std::vector<int64_t>;

struct Dim {
  int64_t value = -1;  // >= 0 when known
  std::string symbol;  // the model's name for it ("batch"); may be empty
  bool known() const { return value >= 0; }
  bool operator==(const Dim&) const = default;
};

using Shape = std::vector<Dim>;

// The numbers, when every dimension has one.
std::optional<Dims> StaticDims(const Shape& shape);
Shape ShapeOf(std::span<const int64_t> dims);
// "2x3", "scalar" for rank 0.
std::string ToString(std::span<const int64_t> dims);
// "batch x 3 x ?".
std::string ToString(const Shape& shape);

}  // namespace quant
