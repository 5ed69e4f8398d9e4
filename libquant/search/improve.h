// Accuracy helpers of static integer quantization, tried one after the other: each is measured on the samples beside
// the model without it, and kept where it helps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/calib/range_method.h"
#include "libquant/config/quantize_options.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/value_ranges.h"
#include "passes/quant/integer_plan.h"
#include "passes/quant/weight_quant.h"

namespace quant {

struct TriedImprovement {
  Improvement what;
  int places = 0;                // sites or biases changed; 0: nothing to try
  double without = 0, with = 0;  // SQNR against the float model in dB, of the worst output
  bool kept = false;
};

struct Improved {
  ValueRanges ranges;  // of the model as it is now
  std::vector<TriedImprovement> tried;
};

// Tries options.improve in order and leaves in `model` what helped: its weights and biases change, its nodes and values
// stay those of `weights` and `integers`. Ranges are measured on all samples, and SQNR on up to 32 of them, spread
// evenly. `path` is for messages.
StatusOr<Improved> ImproveIntegers(const std::string& path, Model& model, const QuantizePlan& weights,
                                   const IntegerPlan& integers, const QuantizeOptions& options, SampleSource& samples,
                                   const RangeOptions& range,
                                   const std::function<void(int64_t done, int64_t all)>& progress = nullptr);

}  // namespace quant
