// Puts QuantizeLinear and DequantizeLinear where a plan wants codes:
//
//   Conv -> y -> ...          =>   Conv -> QuantizeLinear -> DequantizeLinear -> y -> ...
//   LayerNorm -> y -> MatMul  =>   LayerNorm -> y -> QuantizeLinear -> DequantizeLinear -> MatMul    (others still read
//   y)
//
// one pair a value, however many read it. A Relu or Clip behind an integer node goes when its output's quantizer
// saturates where it does: code(lower bound) <= lowest code, and the same above. Biases become int32 where the target
// takes them.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "passes/quant/activation_scales.h"
#include "passes/quant/integer_bias.h"
#include "passes/quant/integer_plan.h"

namespace quant {

// A model's input or output that holds codes now: real = (code - zero_point) * scale.
struct IntegerPort {
  std::string name;
  bool is_input = false;
  ScaleZero scale;
};

struct PlacedQuantizers {
  int64_t quantized = 0;           // values
  int64_t absorbed = 0;            // Relu and Clip that are gone
  std::vector<IntegerNote> notes;  // by node
  std::vector<IntegerPort> ports;  // with QuantizeOptions::integer_io
};

// The weights of the plan's nodes are codes by now (ApplyPlan); values and nodes are those that it was made for. The
// model's opset knows the options' activations.
StatusOr<PlacedQuantizers> PlaceQuantizers(Model& model, const IntegerPlan& plan, const QuantizeOptions& options,
                                           const ActivationScales& scales);

}  // namespace quant
