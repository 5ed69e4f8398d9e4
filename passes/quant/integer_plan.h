// Which nodes of a model run in integers, and which values are therefore quantized: placement by the operators' roles
// and by what the target has kernels for (Target::integer). Decided before ranges are known and before anything is
// rewritten, so that every range that is missing is found first.
//
//   weighted       Conv, Gemm, MatMul whose weight is quantized: what it reads is quantized, and what it makes, unless
//                  the target takes a float output and nothing behind wants codes
//   requantizing   Add, Mul, Sigmoid, Concat: when all it reads is quantized for others' sake, and what it makes
//   reaches
//                  a weighted node through integer nodes
//   moving         Reshape, MaxPool: when it reads what is made as codes, or stands between two integer nodes; input
//                  and output have the same parameters
//   Relu, Clip     behind one of the first two: part of it, as its quantizer saturates where they do
//
// Everything else stays float.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"
#include "passes/quant/weight_quant.h"

namespace quant {

// A node of the main graph that runs in integers.
struct IntegerNode {
  enum class Kind { kWeighted, kRequantizing, kMoving };
  NodeId node = kNoNode;
  Kind kind = Kind::kWeighted;
  std::vector<int32_t> inputs;     // that are quantized; those that hold constants aside
  std::vector<int32_t> constants;  // float constants that become codes, weight and bias aside
  NodeId absorbed = kNoNode;       // the Relu or Clip behind it
  ValueId made = kNoValue;         // what it makes, behind `absorbed`
  bool float_output = false;       // `made` is not quantized
};

// A node whose operator the target could run in integers, or that multiplies by a weight, and that stays float.
struct FloatNode {
  NodeId node = kNoNode;
  std::string reason;
};

// What the report says of a node besides.
struct IntegerNote {
  NodeId node = kNoNode;
  std::string text;
};

struct IntegerPlan {
  std::vector<IntegerNode> nodes;  // in graph order
  std::vector<FloatNode> left;     // in graph order
  std::vector<ValueId> quantized;  // in graph order, each once
  std::vector<ValueId> as_codes;   // of these, the ones that an integer node makes: nobody sees them as float before
};

// `weights` is what becomes of the weights of the model, nothing of which is rewritten yet. UsageError when the target
// does not take the options' activations.
StatusOr<IntegerPlan> PlanIntegers(const Model& model, const QuantizePlan& weights, const QuantizeOptions& options);

// The ranges that it needs.
std::vector<RangeWanted> RangesWanted(const Model& model, const IntegerPlan& plan);

}  // namespace quant
