// Trials: what a model loses by quantization, tried in memory, with no file written. The float model runs once; each
// trial quantizes a copy that shares its payloads, runs it on the same samples and compares.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"
#include "libquant/report/diff_report.h"
#include "libquant/verify/answers.h"
#include "passes/quant/weight_quant.h"

namespace quant {

struct TrialOptions {
  std::optional<std::string> output;  // only this one is compared
  std::optional<std::string> labels;  // as in CompareOptions
  // Samples done and all: of the float model first, then of each trial.
  std::function<void(int64_t, int64_t)> progress = nullptr;
};

struct TrialResult {
  DiffReport diff;  // with the bytes of both models
  QuantizePlan plan;
  int64_t bytes = 0;  // EstimateBytes: of the files that `quantize` would write
};

class Trials {
 public:
  // `model` is as LoadModel gives it; `path` is its file, for messages. Runs it on every sample; answers wait in a
  // temporary file. The samples must outlive the trials.
  static StatusOr<std::unique_ptr<Trials>> Make(const std::string& path, const Model& model, SampleSource& samples,
                                                TrialOptions options = {});

  // UsageError, Unsupported and DataError as PlanWeights, ApplyPlan and the executor give them.
  StatusOr<TrialResult> Run(const QuantizeOptions& options);
  // The same for a plan that was made of the model with these options: to look at it first.
  StatusOr<TrialResult> RunPlan(const QuantizeOptions& options, QuantizePlan plan);

  // How far a model is from the float one that was made of it by other means. Its operators need not have kernels yet.
  StatusOr<DiffReport> RunModel(Model candidate);

  const Model& model() const { return model_; }
  int64_t float_bytes() const;

 private:
  Trials(std::string path, const Model& model, std::unique_ptr<SampleSource> samples, TrialOptions options)
      : path_(std::move(path)), model_(model), samples_(std::move(samples)), options_(std::move(options)) {}
  Status RunReference();

  std::string path_;
  Model model_;
  std::unique_ptr<SampleSource> samples_;
  TrialOptions options_;
  std::unique_ptr<Answers> reference_;
};

}  // namespace quant
