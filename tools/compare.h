// Runs two models on the same samples, one sample at a time, and measures how far their answers are apart.
#pragma once

#include <optional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"
#include "libquant/report/diff_report.h"

namespace quant {

struct CompareOptions {
  std::optional<std::string> output;  // only this one
  std::optional<std::string> labels;  // file of right classes
  bool quiet = false;
};

struct NamedModel {
  std::string path;  // for messages
  const Model& model;
};

// UsageError when inputs or outputs don't match by name and dtype, or when there is no one output for the labels.
StatusOr<DiffReport> CompareModels(const NamedModel& reference, const NamedModel& candidate, SampleSource& samples,
                                   const CompareOptions& options);

}  // namespace quant
