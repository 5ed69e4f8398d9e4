// --auto and --budget: the format of each weight is chosen by what it costs the answers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/report/gate.h"
#include "libquant/report/report.h"
#include "libquant/search/budget.h"
#include "libquant/search/format_search.h"
#include "tools/search_args.h"

namespace quant {

// What was chosen, and from what.
struct FormatChoice {
  std::string goal;  // "--budget 4.5bpw"
  WeightFormats formats;
  SearchResult result;
  QuantizeOptions options;  // the user's, with a rule for each weight
  DiffReport diff;          // of the choice, on all samples
  const TriedChoice& best() const { return result.tried[result.best]; }
};

class AutoArgs {
 public:
  void Declare(Args& args);
  bool given() const { return !conditions_.empty() || budget_; }
  // Before any work: UsageError for what does not parse, has no effect, or can't be measured (`unmeasured` maps metrics
  // to what would measure them).
  Status Check(const Args& args, bool has_samples, const std::map<std::string, std::string>& unmeasured);

  StatusOr<FormatChoice> Choose(const std::string& path, const Model& model, SampleSource& samples,
                                const QuantizeOptions& options, const std::optional<std::string>& labels,
                                bool quiet) const;
  // GateError when the choice does not keep to what was asked for.
  Status Verdict(const FormatChoice& choice) const;
  // Verdicts name what chose instead of the rules made for it.
  void NameIn(QuantizePlan& plan) const;
  const std::optional<std::string>& config() const { return write_config_; }
  // Writes the chosen options where the user asked for it.
  Status WriteConfig(const FormatChoice& choice) const;

 private:
  std::string Goal() const;

  std::vector<std::string> conditions_;
  std::optional<std::string> budget_;
  SearchArgs search_;
  std::optional<int64_t> rounds_;
  std::optional<std::string> write_config_;
  std::vector<Gate> gates_;
  std::optional<Budget> parsed_budget_;
};

}  // namespace quant
