// How scales lie over a tensor in QuantizeLinear and DequantizeLinear: one for all, one per index of an axis, or one
// per block of an axis; and codes as arrays: integers of 2 to 32 bits as int32, floats of 4 and 8 bits as float32.
#pragma once

#include <functional>
#include <vector>

#include "libquant/numerics/small_float.h"
#include "libquant/ops/op_def.h"

namespace quant {

// Consecutive elements [offset, offset + length), which take the scale at `scale`, or, with `scale_per_element`, those
// at scale, scale + 1, ...
struct ScaleRun {
  int64_t offset;
  int64_t length;
  int64_t scale;
  bool scale_per_element;
};

struct ScaleLayout {
  int64_t size = 0;
  int64_t outer = 1, axis = 1, inner = 1;  // the tensor's dims before, at and after the axis
  int64_t block = 0;                       // elements of the axis a scale is for; 0: per tensor
  int64_t blocks = 1;
  bool blocked = false;

  // DataError when attributes `axis`, `block_size` and the scale's dims don't fit a tensor of these dims.
  static StatusOr<ScaleLayout> Read(const KernelContext& context, const Dims& dims, const Tensor& scale);

  int64_t run_count() const;
  ScaleRun Run(int64_t i) const;
  // Calls body for pieces of at most kMaxRun elements that cover the tensor: split over threads, or in order.
  void ForEach(bool parallel, const std::function<void(const ScaleRun&)>& body) const;

  static constexpr int64_t kMaxRun = 512;
};

// Integer types that Q/DQ handle: 2, 4, 8 and 16 bits, and int32.
bool IsCodeType(DType dtype);
struct CodeRange {
  int32_t min, max;
};
CodeRange CodeRangeOf(DType dtype);

// Elements [offset, offset + count) of a tensor of a code type.
void LoadCodes(const Tensor& tensor, int64_t offset, int64_t count, int32_t* out);
// Stores values within the type's range. Types below 8 bits need zeroed bytes first, and calls in one thread.
void StoreCodes(const int32_t* codes, int64_t offset, int64_t count, DType dtype, std::byte* out);

// The same for the formats of small_float.h.
void LoadCodes(const Tensor& tensor, int64_t offset, int64_t count, float* out);
void StoreCodes(const float* values, int64_t offset, int64_t count, DType dtype, std::byte* out,
                const SmallFloatRounding& rounding);

// Scales as float32 and zero points in the type that codes are loaded in (zeros when absent), checked against each
// other.
template <typename Code>
struct QuantParametersOf {
  std::vector<float> scales;
  std::vector<Code> zero_points;
};
using QuantParameters = QuantParametersOf<int32_t>;
using FloatQuantParameters = QuantParametersOf<float>;
StatusOr<QuantParameters> ReadQuantParameters(const Tensor& scale, const Tensor* zero_point);
StatusOr<FloatQuantParameters> ReadFloatQuantParameters(const Tensor& scale, const Tensor* zero_point);

}  // namespace quant
