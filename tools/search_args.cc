#include "tools/search_args.h"

#include <algorithm>

#include "libquant/search/sensitivity.h"
#include "libquant/search/some_samples.h"
#include "tools/progress.h"

namespace quant {
namespace {

constexpr int64_t kSamples = 16;

}  // namespace

void SearchArgs::Declare(Args& args) {
  args.Value("--candidates", "LIST", &list_,
             "formats to choose from: FORMAT/GROUP or FORMAT/GROUP/SCHEME, and float; default " +
                 std::string(DefaultCandidates()));
  args.Value("--samples-for-search", "N", &samples_,
             "samples on which each weight is measured in each format, spread evenly over all of them; default 16");
}

Status SearchArgs::Check() {
  if (samples_ && *samples_ < 1) return UsageError("--samples-for-search takes 1 or more");
  const auto parsed = ParseCandidates(list_.value_or(DefaultCandidates()));
  if (!parsed.ok()) return UsageError("--candidates: {}", Message(parsed.status()));
  candidates_ = *parsed;
  const bool any = std::any_of(candidates_.begin(), candidates_.end(), [](const auto& c) { return !c.is_float; });
  return any ? OkStatus() : UsageError("--candidates: give a format beside float");
}

StatusOr<MeasuredFormats> SearchArgs::Measure(const std::string& path, const Model& model, SampleSource& samples,
                                              const QuantizeOptions& options, bool quiet) const {
  MeasuredFormats out;
  ASSIGN_OR_RETURN(out.formats, WeightFormats::Make(model, options, candidates_));
  out.samples = SomeSamples(samples, samples_.value_or(kSamples));
  ASSIGN_OR_RETURN(out.trials, Trials::Make(path, model, *out.samples));
  SensitivityOptions sensitivity;
  Trials& trials = *out.trials;
  sensitivity.measure = [&trials](const QuantizeOptions& o) -> StatusOr<double> {
    ASSIGN_OR_RETURN(const TrialResult result, trials.Run(o));
    return NoiseFrom(MeasuresOf(result.diff));
  };
  Progress progress("measuring weights", quiet);
  sensitivity.progress = [&](int64_t done, int64_t all) { progress.Update(done, all); };
  ASSIGN_OR_RETURN(out.base_noise, MeasureSensitivity(out.formats, sensitivity));
  return out;
}

}  // namespace quant
