// The elements of a tensor by channel of one axis, which is counted from the end (-1 is the last).
#pragma once

#include <cstdint>
#include <span>

#include "libquant/ir/shape.h"

namespace quant {

// How many channels there are; 0 when the rank is too low.
inline int64_t ChannelCount(const Dims& dims, int64_t from_end) {
  const int64_t axis = static_cast<int64_t>(dims.size()) + from_end;
  return axis >= 0 && from_end < 0 ? dims[static_cast<size_t>(axis)] : 0;
}

// Calls f(channel, elements) for runs of neighbouring elements of one channel, from the first element to the last.
template <typename F>
void ForEachChannelSpan(std::span<const float> values, const Dims& dims, int64_t from_end, F&& f) {
  const int64_t channels = ChannelCount(dims, from_end);
  size_t inner = 1;
  for (int64_t i = from_end + 1; i < 0; ++i) inner *= static_cast<size_t>(dims[dims.size() - static_cast<size_t>(-i)]);
  if (channels == 0 || inner == 0) return;
  const size_t rows = values.size() / inner;
  for (size_t row = 0; row < rows; ++row) f(row % static_cast<size_t>(channels), values.subspan(row * inner, inner));
}

}  // namespace quant
