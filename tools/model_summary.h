// What a model holds, counted: operators, weights, bodies, functions, and how much memory a run takes. Shapes must
// have been inferred.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct OperatorCount {
  std::string op_type;
  std::string domain;  // "ai.onnx" for the default one
  int64_t count = 0;
  bool has_kernel = true;  // or is a function of the model
};

struct WeightBytes {
  DType dtype = DType::kUndefined;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

struct ModelSummary {
  std::vector<OperatorCount> operators;  // most frequent first
  int64_t nodes = 0;                     // bodies included
  int64_t bodies = 0;
  int64_t body_depth = 0;            // 0: no bodies
  std::vector<WeightBytes> weights;  // every constant, most bytes first
  std::vector<ValueId> largest;      // constants, most bytes first
  int64_t weight_bytes = 0;
  int64_t initializers_as_inputs = 0;

  // As PeakActivations (libquant/exec/activation_memory.h) tells it: unknown dimensions count as 1, of which
  // `dynamic_dims` names those of the inputs.
  int64_t activation_bytes = 0;
  std::vector<std::string> dynamic_dims;
  int64_t unknown_values = 0;
};

ModelSummary Summarize(const Model& model);

}  // namespace quant
