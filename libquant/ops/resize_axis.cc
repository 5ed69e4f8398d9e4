#include "libquant/ops/resize_axis.h"

#include <algorithm>
#include <cmath>

namespace quant {
namespace {

// Where an output element lies in the input, in float32 as other runtimes have it.
float SourceOf(const ResizeOptions& o, int64_t i, int64_t in, int64_t out, float scale, float begin, float end) {
  const auto x = static_cast<float>(i);
  const auto last = static_cast<float>(in - 1), steps = static_cast<float>(out - 1);
  switch (o.coordinates) {
    case Coordinates::kHalfPixel:
      return scale == 1 ? x : (x + 0.5f) / scale - 0.5f;
    case Coordinates::kHalfPixelSymmetric: {
      const float exact = scale * static_cast<float>(in);
      const float offset = static_cast<float>(in) / 2 * (1 - static_cast<float>(out) / exact);
      return offset + (x + 0.5f) / scale - 0.5f;
    }
    case Coordinates::kPytorchHalfPixel:
      return out > 1 ? (x + 0.5f) / scale - 0.5f : 0.0f;
    case Coordinates::kAlignCorners:  // by the whole length, as ONNX Runtime; ONNX's own cases take scale * in
      return out == 1 ? 0.0f : x * last / steps;
    case Coordinates::kAsymmetric:
      return x / scale;
    case Coordinates::kTfHalfPixel:
      return (x + 0.5f) / scale;
    case Coordinates::kTfCrop:
      return out > 1 ? begin * last + x * (end - begin) * last / steps : 0.5f * (begin + end) * last;
  }
  return x;
}

int64_t Nearest(NearestMode mode, float x, bool smaller) {
  switch (mode) {
    case NearestMode::kRoundPreferFloor:
      return static_cast<int64_t>(std::ceil(x - 0.5f));
    case NearestMode::kRoundPreferCeil:
      return static_cast<int64_t>(std::floor(x + 0.5f));
    case NearestMode::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case NearestMode::kCeil:
      return static_cast<int64_t>(std::ceil(x));
    case NearestMode::kSimple:
      return static_cast<int64_t>(smaller ? std::ceil(x) : std::floor(x));
  }
  return 0;
}

// Height of the filter at a distance from its middle.
float Filter(const ResizeOptions& o, float distance) {
  const float d = std::fabs(distance), a = o.cubic_a;
  if (o.mode == ResizeMode::kLinear) return std::max(0.0f, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

}  // namespace

AxisTaps MakeTaps(const ResizeOptions& o, int64_t in, int64_t out, float scale, float begin, float end) {
  AxisTaps taps{in, out, 1, {}, {}, {}};
  // A smaller output looks at a wider part of the input when told to.
  const float width = o.antialias && scale < 1 ? 1 / scale : 1.0f;
  const float reach = (o.mode == ResizeMode::kCubic ? 2.0f : 1.0f) * width;
  const bool nearest = o.mode == ResizeMode::kNearest;
  // An output of at least one element looks at no more than this.
  const float most = 2 * static_cast<float>(in) + 2;
  taps.taps = nearest ? 1 : 2 * static_cast<int64_t>(std::ceil(std::min(reach, most)));
  for (int64_t i = 0; i < out; ++i) {
    const float x = SourceOf(o, i, in, out, scale, begin, end);
    if (o.coordinates == Coordinates::kTfCrop) taps.outside.push_back(x < 0 || x > static_cast<float>(in - 1));
    // A region of interest that is no number makes no coordinate: the first element then.
    const float bounded =
        std::isnan(x) ? 0 : std::clamp(x, -static_cast<float>(in) - 4, 2 * static_cast<float>(in) + 4);
    if (nearest) {
      taps.index.push_back(std::clamp<int64_t>(Nearest(o.nearest, bounded, scale < 1), 0, in - 1));
      taps.weight.push_back(1);
      continue;
    }
    const auto first = static_cast<int64_t>(std::floor(bounded)) - taps.taps / 2 + 1;
    const auto at = taps.weight.size();
    float sum = 0;
    for (int64_t t = 0; t < taps.taps; ++t) {
      const int64_t index = first + t;
      float weight = Filter(o, (bounded - static_cast<float>(index)) / width);
      if (o.exclude_outside && (index < 0 || index >= in)) weight = 0;
      sum += weight;
      taps.index.push_back(std::clamp<int64_t>(index, 0, in - 1));
      taps.weight.push_back(weight);
    }
    if (!o.exclude_outside && width == 1) continue;
    for (auto t = at; t < taps.weight.size(); ++t) taps.weight[t] = sum == 0 ? 0 : taps.weight[t] / sum;
  }
  return taps;
}

}  // namespace quant
