// Static integer quantization as a whole: weights and activations as codes, with ranges known beforehand.
//
//   PrepareForIntegers -> PlanWeights, PlanIntegers -> (ranges) -> ApplyIntegers
#pragma once

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"
#include "passes/quant/integer_plan.h"
#include "passes/quant/place_quantizers.h"
#include "passes/quant/weight_quant.h"

namespace quant {

// Activations are codes at ranges known beforehand.
bool IsStatic(const QuantizeOptions& options);

// Runs the default pipeline (BatchNormalization into Conv, decomposed norms recognised and kept float, ...) unless
// `fuse` is false, and raises the opset to the first that has QuantizeLinear for these activations. The model's types
// must have been inferred; they are anew.
Status PrepareForIntegers(Model& model, const QuantizeOptions& options, bool fuse);

// Rewrites the model. Ranges that are missing are a DataError that names them, before anything is changed.
StatusOr<PlacedQuantizers> ApplyIntegers(Model& model, const QuantizeOptions& options, QuantizePlan& weights,
                                         const IntegerPlan& integers, const ValueRanges& ranges);

}  // namespace quant
