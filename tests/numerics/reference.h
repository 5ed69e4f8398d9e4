// The quantization rules once more, as slowly and plainly as they can be put: one group at a time, into vectors,
// without streaming, tiles, threads or vector loops. Tests hold the library against this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "libquant/numerics/weight_producer.h"

namespace quant::reference {

struct Weight {
  int64_t channels = 0;
  int64_t reduction = 0;
  std::vector<float> values;  // [channels][reduction]
  float at(int64_t c, int64_t k) const { return values[static_cast<size_t>(c * reduction + k)]; }
};

struct Outputs {
  std::vector<uint8_t> codes, scales, zero_points;
};

struct Parameters {
  float scale = 1;
  int zero = 0;
};

// float16's 11 significant bits, half to even, fewer below its smallest normal number.
inline float RoundToHalf(double s) {
  int exponent = 0;
  std::frexp(s, &exponent);
  const double unit = std::max(std::ldexp(1.0, exponent - 11), 0x1p-24);
  return static_cast<float>(std::nearbyint(s / unit) * unit);
}

inline float StoreScale(double s, bool half) {
  const float smallest = half ? 0x1p-24f : 0x1p-126f;
  const float stored = half ? RoundToHalf(s) : static_cast<float>(s);
  return std::fabs(stored) < smallest ? std::copysign(smallest, static_cast<float>(s)) : stored;
}

inline int CodeOf(float x, Parameters p, int qmin, int qmax) {
  const double rounded = std::nearbyint(x / p.scale);  // float32 division
  return static_cast<int>(std::clamp(rounded + p.zero, static_cast<double>(qmin), static_cast<double>(qmax)));
}

// Range of the codes of a spec.
inline void CodeRange(const QuantSpec& spec, int& qmin, int& qmax) {
  const int bits = spec.format->bits;
  const bool symmetric = spec.scheme == Scheme::kSymmetric;
  const bool as_signed = spec.format->is_signed && (symmetric || bits != 4);
  qmin = as_signed ? -(1 << (bits - 1)) : 0;
  qmax = qmin + (1 << bits) - 1;
  if (symmetric && bits == 8) ++qmin;
}

inline Parameters Choose(const QuantSpec& spec, const std::vector<float>& group) {
  const bool half = spec.scale_dtype == DType::kFloat16;
  const int bits = spec.format->bits;
  double low = 0;
  double high = 0;
  for (float x : group) {
    low = std::min<double>(low, x);
    high = std::max<double>(high, x);
  }
  int qmin;
  int qmax;
  CodeRange(spec, qmin, qmax);
  Parameters p;
  if (spec.scheme == Scheme::kAsymmetric) {
    if (high != low) p.scale = StoreScale((high - low) / (qmax - qmin), half);
    p.zero = static_cast<int>(std::clamp<double>(std::nearbyint(qmin - low / p.scale), qmin, qmax));
    return p;
  }
  p.zero = spec.format->is_signed ? 0 : 1 << (bits - 1);
  if (high == low) return p;
  if (bits == 8) {
    p.scale = StoreScale(std::max(high, -low) / 127, half);
    return p;
  }
  p.scale = StoreScale(std::max(high / 7, -low / 8), half);
  if (!spec.allow_negative_scales) return p;
  Parameters other = p;
  other.scale = StoreScale((high >= -low ? high : low) / -8, half);
  const auto error = [&](Parameters q) {
    double sum = 0;
    for (float x : group) {
      const float back = static_cast<float>(CodeOf(x, q, qmin, qmax) - q.zero) * q.scale;
      sum += (double{x} - double{back}) * (double{x} - double{back});
    }
    return sum;
  };
  return error(other) < error(p) ? other : p;
}

// Writes element `index` of a tensor of `bits`-wide codes.
inline void Put(std::vector<uint8_t>& bytes, int bits, int64_t index, int code) {
  if (bits == 8) {
    bytes[static_cast<size_t>(index)] = static_cast<uint8_t>(code);
  } else {
    bytes[static_cast<size_t>(index / 2)] |= static_cast<uint8_t>((code & 15) << (index % 2 * 4));
  }
}

inline void PutScale(std::vector<uint8_t>& bytes, bool half, int64_t index, float scale) {
  const float16 narrow(scale);  // exact
  if (half) {
    std::memcpy(bytes.data() + index * 2, &narrow, 2);
  } else {
    std::memcpy(bytes.data() + index * 4, &scale, 4);
  }
}

// The parameters of every block of a channel; one block where channels or the tensor have one scale.
inline std::vector<Parameters> ChannelParameters(const Weight& w, const QuantSpec& spec, int64_t c, int64_t blocks,
                                                 const Parameters& whole) {
  if (spec.granularity == Granularity::kTensor) return std::vector<Parameters>(static_cast<size_t>(blocks), whole);
  const bool grouped = spec.granularity == Granularity::kGroup;
  std::vector<Parameters> out;
  for (int64_t b = 0; b < (grouped ? blocks : 1); ++b) {
    const int64_t first = grouped ? b * spec.group_size : 0;
    const int64_t last = grouped ? std::min(w.reduction, first + spec.group_size) : w.reduction;
    std::vector<float> values;
    for (int64_t k = first; k < last; ++k) values.push_back(w.at(c, k));
    out.push_back(Choose(spec, values));
  }
  out.resize(static_cast<size_t>(blocks), out.front());
  return out;
}

// `stored` holds the weight's elements in the order of its tensor, for the one sum that runs over all of it.
// `inner` is the view's: how many reduction indices of a channel lie together where codes keep the source's order.
inline Outputs Quantize(const Weight& w, const QuantSpec& spec, CodeLayout layout, const std::vector<float>& stored,
                        int64_t inner = 0) {
  const int64_t n = w.channels;
  const int64_t k = w.reduction;
  const int bits = spec.format->bits;
  const bool nbits = layout == CodeLayout::kNBits;
  const bool rows = layout == CodeLayout::kReductionMajor;
  const bool half = spec.scale_dtype == DType::kFloat16;
  const bool one = spec.granularity == Granularity::kTensor && !nbits;
  const bool zeros = spec.scheme == Scheme::kAsymmetric || (!nbits && !spec.format->is_signed);
  int qmin;
  int qmax;
  CodeRange(spec, qmin, qmax);
  const int shift = nbits && qmin < 0 ? 1 << (bits - 1) : 0;
  const int64_t block = nbits || spec.granularity == Granularity::kGroup ? spec.group_size : k;
  const int64_t blocks = (k + block - 1) / block;
  const int64_t padded = nbits ? blocks * block : k;
  const int64_t zero_row = nbits && bits == 4 ? (blocks + 1) / 2 * 2 : blocks;

  Outputs out;
  out.codes.resize(static_cast<size_t>((n * padded * bits + 7) / 8));
  out.scales.resize(static_cast<size_t>((one ? 1 : n * blocks) * (half ? 2 : 4)));
  if (zeros) out.zero_points.resize(static_cast<size_t>(((one ? 1 : n * zero_row) * bits + 7) / 8));
  const Parameters whole = spec.granularity == Granularity::kTensor ? Choose(spec, stored) : Parameters{};
  if (one) {
    PutScale(out.scales, half, 0, whole.scale);
    if (zeros) Put(out.zero_points, bits, 0, whole.zero);
  }
  for (int64_t c = 0; c < n; ++c) {
    const std::vector<Parameters> parameters = ChannelParameters(w, spec, c, blocks, whole);
    for (int64_t b = 0; b < blocks && !one; ++b) {
      const Parameters& p = parameters[static_cast<size_t>(b)];
      PutScale(out.scales, half, rows ? b * n + c : c * blocks + b, p.scale);
      if (zeros) Put(out.zero_points, bits, rows ? b * n + c : c * zero_row + b, p.zero + shift);
    }
    for (int64_t i = 0; i < padded; ++i) {
      const Parameters& p = parameters[static_cast<size_t>(i / block)];
      const int code = (i < k ? CodeOf(w.at(c, i), p, qmin, qmax) : p.zero) + shift;
      const int64_t at = inner > 0 ? (i / inner * n + c) * inner + i % inner : rows ? i * n + c : c * padded + i;
      Put(out.codes, bits, at, code);
    }
  }
  return out;
}

}  // namespace quant::reference
