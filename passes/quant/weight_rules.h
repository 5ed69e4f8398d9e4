// What the user's lists and rules say of each weight, and which of them were of no use in the end.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "passes/quant/float_guard.h"
#include "passes/quant/name_patterns.h"
#include "passes/quant/weight_inventory.h"

namespace quant {

class WeightRules {
 public:
  // UsageError for a pattern that does not compile.
  static StatusOr<WeightRules> Make(const Model& model, const QuantizeOptions& options);

  struct Ruling {
    std::string rule;     // the rule that took the weight; empty: none
    WeightFormat format;  // what it, or the options, ask for
    std::string skipped;  // why the weight stays float; empty: it does not
  };
  // Every list sees every weight, so that a pattern hidden by another still counts as matched; a rule counts when it is
  // a weight's first.
  // `guard` is the graph's.
  StatusOr<Ruling> RuleOn(const Graph& graph, const FloatGuard& guard, const WeightSite& site);
  // The weight of an operator named with --include-op was quantized because of that.
  void NoteRequested(const std::string& op) { requested_.insert(op); }

  // UsageError naming what never matched; `weight_names` are names the user could have meant.
  Status CheckAllUsed(const std::vector<std::string>& weight_names) const;

 private:
  struct Rule {
    const WeightRule* rule;
    NamePatterns pattern;
    WeightFormat format;
    bool used = false;
  };
  WeightRules(NamePatterns skip, NamePatterns only, const QuantizeOptions& options)
      : skip_(std::move(skip)), only_(std::move(only)), options_(&options) {}
  const Rule* FirstRule(const Graph& graph, const WeightSite& site, const std::vector<std::string_view>& names);

  NamePatterns skip_;
  NamePatterns only_;
  const QuantizeOptions* options_;
  std::vector<Rule> rules_;
  std::set<std::string> op_types_;  // that the model has
  std::set<std::string> requested_;
};

}  // namespace quant
