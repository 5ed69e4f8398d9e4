// Bytes of a model's constants as Nibble would store them: as they are, made half, and quantized in the usual ways.
// What can't be quantized counts as it is. No weight is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

enum class PrecisionKind { kAsIs, kHalf, kInt8, kInt4Groups, kInt4 };

struct PrecisionSize {
  std::string name;  // "fp32", "fp16", "int8", "int4, groups of 32"
  PrecisionKind kind = PrecisionKind::kAsIs;
  int64_t group_size = 0;  // kInt4Groups only
  int64_t bytes = 0;
};

struct PrecisionSizes {
  std::vector<PrecisionSize> sizes;  // the most precise first
  int64_t parameters = 0;            // elements of float constants, and codes of quantized ones
  std::string note;                  // why one is missing; may be empty
};

// The model's types must have been inferred.
StatusOr<PrecisionSizes> SizesAtPrecisions(const Model& model, DType scale_type);

// All constants of the model, functions included.
int64_t ConstantBytes(const Model& model);

}  // namespace quant
