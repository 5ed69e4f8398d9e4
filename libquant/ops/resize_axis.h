// Resizing along one axis: which input elements an output element is made of, and with what weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

enum class ResizeMode { kNearest, kLinear, kCubic };
enum class Coordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixel,
  kTfCrop
};
// kSimple: down for a larger output, up for a smaller one, as before opset 11.
enum class NearestMode { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kSimple };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  float cubic_a = -0.75f;
  bool exclude_outside = false;
  bool antialias = false;
};

// out[o] = sum over t of weight[o * taps + t] * in[index[o * taps + t]]. Indices are inside the input.
struct AxisTaps {
  int64_t in = 0, out = 0;
  int64_t taps = 1;
  std::vector<int64_t> index;
  std::vector<float> weight;
  std::vector<bool> outside;  // kTfCrop: output elements that lie outside the input; empty otherwise
};

// `begin` and `end` are the region of interest (kTfCrop). in >= 1.
AxisTaps MakeTaps(const ResizeOptions& options, int64_t in, int64_t out, float scale, float begin, float end);

}  // namespace quant
