// What a model answers, within the fuzzer's limits, to compare a changed one with.
#pragma once

#include <optional>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

// What is asked of a changed model.
enum class Sameness {
  kRuns,  // no more than that
  // The same answers where the operators define them: not about tensors without elements, nor about what is not finite.
  kWhereDefined,
  kSame
};

class FuzzAnswers {
 public:
  // nullopt when the model does not run, draws random numbers, makes tensors of other dims than it declares, or makes
  // numbers that no rounding leaves alone: infinities, NaN, or larger than 1e4.
  static std::optional<FuzzAnswers> Of(const Model& model, const NamedTensors& feeds);

  // GateError when the model does not run, or answers otherwise. OK when it is the limits that
  // keep it from running.
  Status Check(const Model& model, Sameness wanted) const;

 private:
  NamedTensors feeds_, answers_;
  bool any_empty_ = false;
};

}  // namespace quant
