#include "passes/quant/weight_rules.h"

#include <algorithm>

namespace quant {
namespace {

bool ReadBy(const Graph& graph, const WeightSite& site, const std::string& op_type) {
  return std::any_of(site.readers.begin(), site.readers.end(),
                     [&](const WeightReader& r) { return graph.node(r.node).op_type == op_type; });
}

void AddOpTypes(const Graph& graph, std::set<std::string>& types) {
  for (NodeId n : graph.AllNodes()) types.insert(graph.node(n).op_type);
}

}  // namespace

StatusOr<WeightRules> WeightRules::Make(const Model& model, const QuantizeOptions& options) {
  ASSIGN_OR_RETURN(NamePatterns skip, NamePatterns::Compile("--skip", options.skip));
  ASSIGN_OR_RETURN(NamePatterns only, NamePatterns::Compile("--only", options.only));
  WeightRules out(std::move(skip), std::move(only), options);
  for (const WeightRule& rule : options.rules) {
    std::vector<std::string> patterns;
    if (!rule.match.empty()) patterns.push_back(rule.match);
    ASSIGN_OR_RETURN(NamePatterns pattern, NamePatterns::Compile(rule.where + ": match", patterns));
    WeightFormat format = options.format;
    for (const auto& [key, value] : rule.format) {
      const Status status = SetFormatOption(format, key, value);
      if (!status.ok()) return WithContext(status, rule.where);
    }
    out.rules_.push_back({&rule, std::move(pattern), std::move(format)});
  }
  AddOpTypes(model.graph, out.op_types_);
  for (const Function& function : model.functions) AddOpTypes(function.body, out.op_types_);
  return out;
}

const WeightRules::Rule* WeightRules::FirstRule(const Graph& graph, const WeightSite& site,
                                                const std::vector<std::string_view>& names) {
  const Rule* first = nullptr;
  for (Rule& rule : rules_) {
    const bool named = rule.pattern.empty() || rule.pattern.Match(names) != nullptr;
    if (!named || (!rule.rule->op.empty() && !ReadBy(graph, site, rule.rule->op))) continue;
    if (first != nullptr) continue;
    rule.used = true;
    first = &rule;
  }
  return first;
}

StatusOr<WeightRules::Ruling> WeightRules::RuleOn(const Graph& graph, const FloatGuard& guard, const WeightSite& site) {
  std::vector<std::string_view> names{graph.value(site.value).name};
  for (const WeightReader& r : site.readers) names.push_back(graph.node(r.node).name);
  const std::string* skipped = skip_.Match(names);
  const std::string* chosen = only_.Match(names);
  const Rule* rule = FirstRule(graph, site, names);
  Ruling out;
  out.format = rule != nullptr ? rule->format : options_->format;
  if (rule != nullptr) out.rule = rule->rule->Label();
  std::string& reason = out.skipped;
  if (skipped != nullptr) reason = fmt::format("--skip '{}'", *skipped);
  for (const std::string& type : options_->skip_op) {
    if (reason.empty() && ReadBy(graph, site, type)) reason = fmt::format("--skip-op {}", type);
  }
  if (reason.empty() && rule != nullptr && rule->rule->skip) reason = out.rule;
  if (reason.empty() && !only_.empty() && chosen == nullptr) reason = "not among --only";
  for (const WeightReader& r : site.readers) {
    const auto guarded = guard.find(r.node);
    if (reason.empty() && guarded != guard.end() && !only_.NamesExactly(names)) {
      reason = fmt::format("{} stays float", guarded->second);
    }
  }
  return out;
}

Status WeightRules::CheckAllUsed(const std::vector<std::string>& weight_names) const {
  const auto check_matched = [&](const NamePatterns& patterns) {
    return patterns.CheckAllMatched("weight and no node that reads one", "weights", weight_names);
  };
  RETURN_IF_ERROR(check_matched(skip_));
  RETURN_IF_ERROR(check_matched(only_));
  for (const Rule& rule : rules_) {
    RETURN_IF_ERROR(check_matched(rule.pattern));
    if (!rule.used) return UsageError("{} matches no weight that an earlier rule leaves to it", rule.rule->Label());
  }
  for (const std::string& type : options_->skip_op) {
    if (!op_types_.contains(type)) return UsageError("--skip-op {}: the model has no such operator", type);
  }
  for (const std::string& type : options_->include_op) {
    if (!op_types_.contains(type)) return UsageError("--include-op {}: the model has no such operator", type);
    if (!requested_.contains(type)) {
      return UsageError("--include-op {} has no effect: no weight of it stays float for want of being asked for", type);
    }
  }
  return OkStatus();
}

}  // namespace quant
