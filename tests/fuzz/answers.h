// What a model answers, within the fuzzer's limits, to compare a changed one with.
#pragma once

#include <optional>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

class FuzzAnswers {
 public:
  // nullopt when the model does not run, draws random numbers, or makes numbers that no rounding leaves alone:
  // infinities, NaN, or larger than kLargest.
  static std::optional<FuzzAnswers> Of(const Model& model, const NamedTensors& feeds);

  // GateError when the model does not run, or, if asked to compare, answers otherwise. OK when it is the limits that
  // keep it from running.
  Status Check(const Model& model, bool compare) const;

 private:
  NamedTensors feeds_, answers_;
};

}  // namespace quant
