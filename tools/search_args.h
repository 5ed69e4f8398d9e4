// --candidates and --samples-for-search: what measuring the sensitivity of weights takes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/search/trial.h"
#include "libquant/search/weight_formats.h"
#include "tools/args.h"

namespace quant {

// Formats with the noise of each, and what they were measured with.
struct MeasuredFormats {
  WeightFormats formats;
  double base_noise = 0;
  std::unique_ptr<SampleSource> samples;  // those that were used
  std::unique_ptr<Trials> trials;         // on them
};

class SearchArgs {
 public:
  void Declare(Args& args);
  // UsageError for a list of candidates that is none.
  Status Check();
  // Runs the model once for each weight and candidate. `samples` must outlive the result.
  StatusOr<MeasuredFormats> Measure(const std::string& path, const Model& model, SampleSource& samples,
                                    const QuantizeOptions& options, bool quiet) const;

 private:
  std::optional<std::string> list_;
  std::optional<int64_t> samples_;
  std::vector<CandidateFormat> candidates_;
};

}  // namespace quant
