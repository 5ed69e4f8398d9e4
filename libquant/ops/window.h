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
