// A decomposed LayerNormalization or RMS normalization with all that one operator needs to take its place.
#pragma once

#include <optional>
#include <vector>

#include "passes/decomposed_norm.h"
#include "passes/pass.h"

namespace quant {

// A scale or shift: a value of the graph, or a new constant where that has leading axes of length 1 or is missing.
struct NormParameter {
  ValueId value = kNoValue;
  std::optional<Tensor> constant;
  bool given() const { return value != kNoValue || constant.has_value(); }
  ValueRef In(GraphEdit& edit, const char* name) const;
};

struct NormSite {
  ValueId x = kNoValue;
  int64_t axes = 0;  // how many, the last ones
  float epsilon = 0;
  NormParameter scale = {};  // always given
  NormParameter shift = {};  // may be missing
  std::vector<NodeId> parts = {};
  NodeId last = kNoNode;  // makes the result
};

// The site whose normalized value `norm` makes, with the scale and shift behind it; nullopt with a near miss.
std::optional<NormSite> FindNormSite(const PassContext& context, const DecomposedNorm& norm);

}  // namespace quant
