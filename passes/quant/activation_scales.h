// Scales and zero points of a plan's quantized values: one set for all values that must share it. What a node only
// moves or picks has the parameters of what it reads. So have the inputs and the output of a Concat, where the target
// wants that or where it costs little, as the integer Concat is then a plain copy.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/quantize.h"
#include "libquant/numerics/value_ranges.h"
#include "passes/quant/integer_plan.h"

namespace quant {

using ActivationScales = std::map<ValueId, ScaleZero>;

// How activations are quantized: the options' format, per tensor; with zero points unless the target takes none.
QuantSpec ActivationSpec(const QuantizeOptions& options);

// DataError naming the values that have no range, before anything else is looked at.
StatusOr<ActivationScales> ChooseActivationScales(const Model& model, const IntegerPlan& plan,
                                                  const QuantizeOptions& options, const ValueRanges& ranges);

// Concats whose output has one scale for inputs of very different ranges, so that the narrowest keeps few codes. Their
// ranges are all there.
std::vector<IntegerNote> NoteUnlikeInputs(const Model& model, const IntegerPlan& plan, const QuantizeOptions& options,
                                          const ValueRanges& ranges);

}  // namespace quant
