// Makes a model half: float32 weights and activations become float16 or bfloat16 where operators allow, with Casts to
// and from what stays float32.
//
//   y = Softmax(MatMul(x, W))  =>  y = Softmax(Cast<to = float>(MatMul(Cast<to = float16>(x), W.half)))
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/half_tensor.h"
#include "passes/convert/half_plan.h"

namespace quant {

struct HalfReport {
  struct Kept {
    std::string node, op_type, why;
  };
  struct Weight {
    std::string name;
    Tensor half;  // deferred when large
    std::shared_ptr<HalfLosses> losses;
  };
  int half_nodes = 0;
  std::vector<Kept> kept;       // nodes with float32 values that stay so
  std::vector<Weight> weights;  // constants that became half
  int casts = 0;                // in the model made, between float32 and half
};

// Expands the model's functions first: their bodies have no types of their own. What If, Loop and Scan hand in and out
// becomes half where all that it is in the node and its bodies can (DecidePorts). Weights are rounded when they are
// asked for, and saturate. A graph that came with opset or IR version too old for half keeps float32 where that is so.
// Types must have been inferred.
StatusOr<HalfReport> ConvertToHalf(Model& model, const HalfOptions& options);

// What was lost in each weight: those that no writer has produced are produced here, for the count alone.
Status CountLosses(HalfReport& report);

}  // namespace quant
