#include <algorithm>
#include <set>

#include "passes/quant/float_guard.h"
#include "passes/quant/name_patterns.h"
#include "passes/quant/weight_form.h"
#include "passes/quant/weight_inventory.h"
#include "passes/quant/weight_quant.h"

namespace quant {
namespace {

std::string_view NameOf(Scheme scheme) { return scheme == Scheme::kSymmetric ? "symmetric" : "asymmetric"; }

std::string DescribeSpec(const WeightForm& form) {
  std::string grain = form.spec.granularity == Granularity::kTensor    ? "per tensor"
                      : form.spec.granularity == Granularity::kChannel ? "per channel"
                                                                       : fmt::format("group {}", form.spec.group_size);
  std::string text = fmt::format("{} {}, {}, {}", form.spec.format->name, NameOf(form.spec.scheme), grain,
                                 form.kind == FormKind::kNBits ? "MatMulNBits" : "DequantizeLinear");
  return form.note.empty() ? text : text + " (" + form.note + ")";
}

Status CheckOptions(const QuantizeOptions& options) {
  if (FindFormat(options.weights) == nullptr) return UsageError("--weights {}: unknown format", options.weights);
  if (FindTarget(options.target) == nullptr) return UsageError("--target {}: unknown target", options.target);
  if (options.granularity == Granularity::kGroup && options.group_size < 1) {
    return UsageError("--group-size {}: give a positive number, channel or tensor", options.group_size);
  }
  if (options.emit == Emit::kQdq && options.accuracy_level_set) {
    return UsageError("--accuracy-level is an attribute of MatMulNBits and has no effect with --emit qdq");
  }
  if (options.accuracy_level < 0 || options.accuracy_level > 4) {
    return UsageError("--accuracy-level {}: give 0 to 4", options.accuracy_level);
  }
  const int64_t g = options.group_size;
  if (options.emit == Emit::kNBits && options.granularity == Granularity::kGroup &&
      (g < 16 || g > 256 || (g & (g - 1)) != 0)) {
    return UsageError("--group-size {}: MatMulNBits takes 16, 32, 64, 128 or 256", g);
  }
  return OkStatus();
}

// Applies the user's lists to one weight after another and remembers what was of use.
class SkipRules {
 public:
  static StatusOr<SkipRules> Make(const Graph& graph, const QuantizeOptions& options) {
    ASSIGN_OR_RETURN(NamePatterns skip, NamePatterns::Compile("--skip", options.skip));
    ASSIGN_OR_RETURN(NamePatterns only, NamePatterns::Compile("--only", options.only));
    SkipRules rules(std::move(skip), std::move(only));
    rules.guard_ = FindGuardedNodes(graph);
    rules.skip_op_ = options.skip_op;
    for (NodeId n : graph.AllNodes()) rules.op_types_.insert(graph.node(n).op_type);
    return rules;
  }

  // Why the weight is skipped; empty when it is not.
  std::string ReasonToSkip(const Graph& graph, const WeightSite& site) {
    std::vector<std::string_view> names{graph.value(site.value).name};
    for (const WeightReader& r : site.readers) names.push_back(graph.node(r.node).name);
    // Every list sees every weight, so that a pattern hidden by another still counts as matched.
    const std::string* skipped = skip_.Match(names);
    const std::string* chosen = only_.Match(names);
    std::string reason;
    if (skipped != nullptr) reason = fmt::format("--skip '{}'", *skipped);
    for (const WeightReader& r : site.readers) {
      const std::string& type = graph.node(r.node).op_type;
      if (reason.empty() && std::find(skip_op_.begin(), skip_op_.end(), type) != skip_op_.end()) {
        reason = fmt::format("--skip-op {}", type);
      }
    }
    if (reason.empty() && !only_.empty() && chosen == nullptr) reason = "not among --only";
    for (const WeightReader& r : site.readers) {
      auto guarded = guard_.find(r.node);
      if (reason.empty() && guarded != guard_.end() && !only_.NamesExactly(names)) {
        reason = fmt::format("{} stays float", guarded->second);
      }
    }
    return reason;
  }

  Status CheckAllUsed(const std::vector<std::string>& weight_names) const {
    RETURN_IF_ERROR(skip_.CheckAllMatched(weight_names));
    RETURN_IF_ERROR(only_.CheckAllMatched(weight_names));
    for (const std::string& type : skip_op_) {
      if (!op_types_.contains(type)) return UsageError("--skip-op {}: the model has no such operator", type);
    }
    return OkStatus();
  }

 private:
  SkipRules(NamePatterns skip, NamePatterns only) : skip_(std::move(skip)), only_(std::move(only)) {}
  NamePatterns skip_;
  NamePatterns only_;
  std::vector<std::string> skip_op_;
  std::set<std::string> op_types_;
  FloatGuard guard_;
};

WeightVerdict Describe(const Graph& graph, const WeightSite& site) {
  const Value& value = graph.value(site.value);
  WeightVerdict v;
  v.value = site.value;
  v.weight = value.name;
  for (const WeightReader& r : site.readers) v.readers.push_back(r.node);
  v.node = graph.NodeLabel(v.readers[0]);
  v.op_type = graph.node(v.readers[0]).op_type;
  v.dims = value.constant->dims();
  v.elements = value.constant->size();
  return v;
}

Status Decide(const Graph& graph, const WeightSite& site, const QuantizeOptions& options, WeightVerdict& verdict) {
  auto answer = ChooseForm(graph, site, options);
  if (auto* reason = std::get_if<std::string>(&answer)) {
    verdict.kind = VerdictKind::kUnsupported;
    verdict.reason = *reason;
    return OkStatus();
  }
  const auto& form = std::get<WeightForm>(answer);
  ASSIGN_OR_RETURN(QuantizedWeight quantized, QuantizeInForm(graph.value(site.value), form));
  const bool once_per_reader = form.kind == FormKind::kQdqMatrix;
  verdict.kind = VerdictKind::kQuantized;
  verdict.spec = form.spec;
  verdict.bits = quantized.bits * (once_per_reader ? static_cast<int64_t>(site.readers.size()) : 1);
  verdict.reason = DescribeSpec(form);
  verdict.warning = form.warning;
  return OkStatus();
}

}  // namespace

int64_t QuantizePlan::weight_elements() const {
  int64_t sum = 0;
  for (const WeightVerdict& v : verdicts) sum += v.elements;
  return sum;
}

int64_t QuantizePlan::quantized_elements() const {
  int64_t sum = 0;
  for (const WeightVerdict& v : verdicts) sum += v.kind == VerdictKind::kQuantized ? v.elements : 0;
  return sum;
}

double QuantizePlan::coverage() const {
  const int64_t all = weight_elements();
  return all == 0 ? 1.0 : static_cast<double>(quantized_elements()) / static_cast<double>(all);
}

double QuantizePlan::bits_per_weight() const {
  int64_t bits = 0;
  for (const WeightVerdict& v : verdicts) bits += v.kind == VerdictKind::kQuantized ? v.bits : 0;
  const int64_t elements = quantized_elements();
  return elements == 0 ? 0.0 : static_cast<double>(bits) / static_cast<double>(elements);
}

StatusOr<QuantizePlan> PlanWeights(const Model& model, const QuantizeOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const Graph& graph = model.graph;
  ASSIGN_OR_RETURN(SkipRules rules, SkipRules::Make(graph, options));
  const WeightInventory inventory = FindWeights(graph);
  QuantizePlan plan;
  plan.small_constants = inventory.small_constants;
  plan.small_elements = inventory.small_elements;
  std::vector<std::string> names;
  for (const WeightSite& site : inventory.weights) {
    WeightVerdict verdict = Describe(graph, site);
    verdict.reason = rules.ReasonToSkip(graph, site);
    if (verdict.reason.empty()) {
      RETURN_IF_ERROR(Decide(graph, site, options, verdict));
    } else {
      verdict.kind = VerdictKind::kSkipped;
    }
    names.push_back(verdict.weight);
    plan.verdicts.push_back(std::move(verdict));
  }
  RETURN_IF_ERROR(rules.CheckAllUsed(names));
  return plan;
}

}  // namespace quant
