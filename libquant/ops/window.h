// Sliding windows of Conv, ConvTranspose and the pools: kernel, strides, dilations and pads per spatial axis, read
// from attributes that may hold anything.
//   position of tap k of output o on the input axis: o * stride - pad_begin + k * dilation
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/attribute.h"
#include "libquant/ir/shape.h"

namespace quant {

// Indices [begin, end) of a run.
struct IndexRange {
  int64_t begin, end;
};

// The indices i of [0, count) for which element first + i * stride lies in [0, in).
inline IndexRange IndicesInside(int64_t first, int64_t stride, int64_t in, int64_t count) {
  const int64_t begin = first >= 0 ? 0 : std::min(count, (-first + stride - 1) / stride);
  return {begin, first >= in ? begin : std::clamp((in - first + stride - 1) / stride, begin, count)};
}

struct WindowAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;

  // Input positions that a window spans.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  int64_t start(int64_t o) const { return o * stride - pad_begin; }
  // The outputs whose tap lies inside the input.
  IndexRange OutputsInside(int64_t tap) const { return IndicesInside(start(0) + tap * dilation, stride, in, out); }
  // The taps [first, last) of a window that starts at `start` which fall inside the input.
  int64_t FirstTap(int64_t begin) const { return begin >= 0 ? 0 : (-begin + dilation - 1) / dilation; }
  int64_t LastTap(int64_t begin) const {
    return begin >= in ? 0 : std::min(kernel, (in - begin + dilation - 1) / dilation);
  }
};

using Window = std::vector<WindowAxis>;  // one per spatial axis

enum class WindowKind { kConv, kPool, kTranspose };

// The window of a node over the spatial dims of its input. `kernel` is the weight's spatial dims for kConv and
// kTranspose (kernel_shape, if given, must agree); empty for kPool, which requires kernel_shape. DataError for
// anything that is not a positive size. For kTranspose `out` comes from output_shape, output_padding and auto_pad.
StatusOr<Window> ReadWindow(const Attributes& attributes, WindowKind kind, std::span<const int64_t> input,
                            std::span<const int64_t> kernel);

// The same window over exactly three spatial axes (leading ones trivial). Unsupported for more than three.
StatusOr<std::array<WindowAxis, 3>> ThreeAxes(const Window& window);

// {n, c} and the output's spatial dims.
Dims WithSpatial(int64_t n, int64_t c, const Window& window);

}  // namespace quant
