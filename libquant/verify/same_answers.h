// Whether a model still answers as it did: what a pass is held to. The answers of the model as it was are kept; a
// changed one runs on the same samples.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"

namespace quant {

struct AnswerTolerance {
  // Relative RMS error of an output over all samples, by its type; integers, bools and strings must be equal.
  double wide = 1e-5;  // float32 and float64
  double half = 1e-2;  // float16 and bfloat16
};

class SameAnswers {
 public:
  // Runs `model` on every sample, which is kept. Unsupported when an operator has no kernel.
  static StatusOr<SameAnswers> Of(const Model& model, SampleSource& samples, const AnswerTolerance& tolerance = {});

  // nullopt when the model answers the same; else what differs, or why it does not run: "output y: relative RMS 0.3".
  StatusOr<std::optional<std::string>> Check(const Model& model) const;

 private:
  AnswerTolerance tolerance_;
  std::vector<NamedTensors> feeds_, answers_;
};

}  // namespace quant
