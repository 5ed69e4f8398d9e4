// Holds two sides' answers against each other, sample by sample: one sample's are in memory at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/report/diff_report.h"
#include "libquant/verify/answers.h"
#include "libquant/verify/layers.h"

namespace quant {

struct CompareOptions {
  std::optional<std::string> output;  // only this one
  // File of what is right: integers are classes, one per row of classes; numbers (a float .npy) are the answers, as
  // many for each sample.
  std::optional<std::string> labels;
  // Collects layers too: both sides run. Then `worst_layers` of them get histograms.
  LayerCollector* layers = nullptr;
  size_t worst_layers = 6;
  double line = 20;  // dB: see DiffReport
  // Done and all samples.
  std::function<void(int64_t, int64_t)> progress = nullptr;
};

// UsageError when the required inputs of two models don't match by name and dtype.
struct NamedModel {
  std::string path;  // for messages
  const Model& model;
};
Status MatchInputs(const NamedModel& reference, const NamedModel& candidate);

// UsageError when the candidate lacks an output, or when there is no one output for the labels.
StatusOr<DiffReport> Compare(Answers& reference, Answers& candidate, SampleSource& samples,
                             const CompareOptions& options);

// What went wrong in sample `i`; of random samples also which sizes were chosen for them, as others may do.
Status InSample(const Status& status, const SampleSource& source, int64_t i);

}  // namespace quant
