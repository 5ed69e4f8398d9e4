// Whether a model still answers as it did: what a pass is held to. The answers of the model as it was are kept; a
// changed one runs on the same samples.
//
// An output may move by the relative RMS of AnswerTolerance, and by more only up to twice what the model itself moves
// by when its float32 and float64 inputs and weights (constants of two or more axes) change by one unit in the last
// place: no more can be known of an answer, each of the two compared is so far from the exact one, and a weight that
// something is folded into is rounded anew. That is measured on the model as it was, when an output first asks for it,
// and counts up to kMostNoise: beyond that the answers say nothing of the model.
#pragma once

#include <map>
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

  static constexpr double kMostNoise = 1e-3;

  // nullopt when the model answers the same; else what differs, or why it does not run: "output y: relative RMS 0.3".
  StatusOr<std::optional<std::string>> Check(const Model& model) const;

 private:
  AnswerTolerance tolerance_;
  // How far output `name` moves with the last bits of inputs and weights; 0 when that can't be told.
  double NoiseOf(const std::string& name) const;

  std::vector<NamedTensors> feeds_, answers_;
  Model model_;  // as it was, for the noise; its weights are shared
  mutable std::optional<std::map<std::string, double>> noise_;
};

}  // namespace quant
