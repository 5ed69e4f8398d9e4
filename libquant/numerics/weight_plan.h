// How one weight is quantized, worked out from sizes alone: what the outputs look like and how the work is split. The
// split does not depend on threads, nor the bytes on the split.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/numerics/scale_rule.h"
#include "libquant/numerics/weight_producer.h"

namespace quant {

// One piece of work: channels [c, c + columns), reduction [k, k_end). Whole granules; more than one tile only when a
// single granule is larger than a tile.
struct WeightUnit {
  int64_t c = 0;
  int64_t columns = 0;
  int64_t k = 0;
  int64_t k_end = 0;
};

struct WeightPlan {
  std::string name;
  MatrixView view;
  QuantSpec spec;
  CodeLayout layout = CodeLayout::kReductionMajor;
  ScaleRule rule;

  int64_t padded = 0;      // codes per channel: view.reduction, or whole blocks in kNBits
  int64_t granule = 1;     // codes of a channel under one choice of scale (per tensor: under one stored scale)
  int64_t repeat = 1;      // how often a granule's scale is stored: more than once for kChannel in kNBits
  int64_t parameters = 1;  // stored scales per channel; per tensor outside kNBits 0, for one in all
  bool zero_points = false;
  int32_t code_offset = 0;  // added to codes and zero points as they are stored: 2^(bits-1) for signed in kNBits

  DType code_dtype = DType::kUndefined;
  Dims code_dims;
  Dims scale_dims;
  DType zero_dtype = DType::kUndefined;
  Dims zero_dims;

  int64_t tile_channels = 1;
  int64_t tile_reduction = 1;
  int64_t unit_reduction = 1;

  int bits() const { return rule.format.bits; }
  bool reduction_major() const { return layout == CodeLayout::kReductionMajor; }
  bool per_tensor() const { return spec.granularity == Granularity::kTensor; }
  // The codes as a matrix of this many rows, as they are written.
  int64_t code_rows() const;
  // Zero points of a channel as stored, the odd nibble's filler in kNBits included.
  int64_t zero_row() const;

  int64_t unit_count() const;
  WeightUnit unit(int64_t index) const;
};

// Unsupported, DataError and BugError as QuantizeWeight says.
StatusOr<WeightPlan> PlanWeight(const std::string& name, const Tensor& source, const MatrixView& view,
                                const QuantSpec& spec, CodeLayout layout);

}  // namespace quant
