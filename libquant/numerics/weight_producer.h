// The deferred tensors of one quantized weight: codes, scales and, where the form has them, zero points, made
// together while the source is streamed: once, or twice where one scale covers more than a tile. A thread holds a
// few MiB, whatever the weight's size (a deferred source is materialized first, however); threads split a weight by
// whole groups; the bytes don't depend on the number of threads.
#pragma once

#include <memory>
#include <optional>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"
#include "libquant/numerics/quantize.h"

namespace quant {

// How the source (float32, float16 or bfloat16 of any dims) is read as a matrix of `channels` x `reduction`:
// element (c, k) is at c * channel_stride + k * reduction_stride. Exactly one of the strides is 1.
// With `inner` > 0 the source is [reduction / inner, channels, inner] instead, as ConvTranspose's kernels are:
// element (c, k) is at (k / inner) * channels * inner + c * inner + k % inner, and the strides are not read.
struct MatrixView {
  int64_t channels = 0;
  int64_t reduction = 0;
  int64_t channel_stride = 0;
  int64_t reduction_stride = 0;
  int64_t inner = 0;
  bool operator==(const MatrixView&) const = default;
};

// Where codes and parameters go.
enum class CodeLayout {
  kReductionMajor,  // codes [K, N], parameters [ceil(K/group), N] (group), [N] (channel), [] (tensor)
  kChannelMajor,    // codes [N, K], parameters [N, ceil(K/group)] (group), [N] (channel), [] (tensor)
  kSourceOrder,     // codes in the order of a source with `inner`; parameters [N] (channel), [] (tensor)
  kNBits,           // MatMulNBits: uint8 codes [N, blocks, group*bits/8], scales [N, blocks], zero points packed
                    // [N, ceil(blocks*bits/8)] or left out when symmetric (then 2^(bits-1) is meant); group only
};

struct QuantizedWeight {
  Tensor codes;
  Tensor scales;
  std::optional<Tensor> zero_points;  // absent only when the form means the right zero point without it
  int64_t bits = 0;                   // of codes, scales and zero points together, padding included
};

// The three tensors share one producer. Nothing is read yet; `name` is for errors. Errors while producing:
// DataError naming the weight and the count when it holds NaN or infinity (unless clamped), Unsupported when a
// scale overflows float16. BugError when the view does not cover the source exactly. Clamped means NaN as 0 and an
// infinity as the largest finite magnitude among the values that share its scale.
// The filler of short last blocks in kNBits is the block's zero point, so that it dequantizes to 0.
// In kNBits a per-channel or per-tensor granularity repeats scales in blocks of `spec.group_size`.
StatusOr<QuantizedWeight> QuantizeWeight(const std::string& name, const Tensor& source, const MatrixView& view,
                                         const QuantSpec& spec, CodeLayout layout);

// The same weight again, of codes made by QuantizeWeight that nothing has asked for yet, with no channel's scale (for
// one scale in all: `least` has one element) smaller than given.
StatusOr<QuantizedWeight> WithLeastScales(const Tensor& codes, std::vector<float> least);

}  // namespace quant
