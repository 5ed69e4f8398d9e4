#include <algorithm>

#include "passes/quant/float_guard.h"
#include "passes/quant/static_quant.h"
#include "passes/quant/weight_form.h"
#include "passes/quant/weight_inventory.h"
#include "passes/quant/weight_quant.h"
#include "passes/quant/weight_rules.h"

namespace quant {
namespace {

std::string_view NameOf(Scheme scheme) { return scheme == Scheme::kSymmetric ? "symmetric" : "asymmetric"; }

std::string OperatorsOf(const Graph& graph, const FormGroup& group) {
  if (group.form.kind == FormKind::kDequantize) return "DequantizeLinear";
  if (group.form.kind == FormKind::kGatherRows) return "Gather and Mul";
  if (group.form.kind == FormKind::kDynamic) return "DynamicQuantizeLinear";
  std::string names;
  for (const bool table : {false, true}) {
    const bool any = std::any_of(group.readers.begin(), group.readers.end(), [&](const WeightReader& r) {
      return (graph.node(r.node).op_type == "Gather") == table;
    });
    if (any) names += (names.empty() ? "" : " and ") + std::string(table ? "GatherBlockQuantized" : "MatMulNBits");
  }
  return names;
}

std::string Describe(const Graph& graph, const FormGroup& group) {
  const QuantSpec& spec = group.form.spec;
  const std::string grain = spec.granularity == Granularity::kTensor    ? "per tensor"
                            : spec.granularity == Granularity::kChannel ? "per channel"
                                                                        : fmt::format("group {}", spec.group_size);
  std::string text =
      fmt::format("{} {}, {}, {}", spec.format->name, NameOf(spec.scheme), grain, OperatorsOf(graph, group));
  return group.form.note.empty() ? text : text + " (" + group.form.note + ")";
}

Status CheckFormat(const WeightFormat& format, const QuantizeOptions& options) {
  const int64_t g = format.group_size;
  if (format.granularity != Granularity::kGroup) return OkStatus();
  if (g < 1) return UsageError("--group-size {}: give a positive number, channel or tensor", g);
  if (options.emit == Emit::kNBits && (g < 16 || g > 256 || (g & (g - 1)) != 0)) {
    return UsageError("--group-size {}: MatMulNBits takes 16, 32, 64, 128 or 256", g);
  }
  return OkStatus();
}

// Why the weight stays float although activations become codes; empty when it does not.
std::string WhyNotInteger(const Graph& graph, int function, const WeightSite& site, const QuantizeOptions& options) {
  if (!IsStatic(options)) return "";
  for (const WeightReader& reader : site.readers) {
    const Node& node = graph.node(reader.node);
    const bool asked =
        std::find(options.include_op.begin(), options.include_op.end(), node.op_type) != options.include_op.end();
    if (asked) continue;
    if (!options.target.integer.HasKernel(node.op_type)) {
      return fmt::format("{} does not run {} in integers", options.target.name, node.op_type);
    }
    if (function >= 0 || node.region != kMainRegion) return "in a body or a function, where activations stay float";
    if (reader.dtype != DType::kFloat) return fmt::format("its reader computes in {}", NameOf(reader.dtype));
  }
  return "";
}

Status CheckOptions(const QuantizeOptions& options) {
  if (FindFormat(options.format.weights) == nullptr)
    return UsageError("--weights {}: unknown format", options.format.weights);
  if (options.emit != Emit::kNBits && options.accuracy_level_set) {
    return UsageError("--accuracy-level is an attribute of MatMulNBits and has no effect with --emit {}",
                      NameOf(options.emit));
  }
  if (options.accuracy_level < 0 || options.accuracy_level > 4) {
    return UsageError("--accuracy-level {}: give 0 to 4", options.accuracy_level);
  }
  return CheckFormat(options.format, options);
}

WeightVerdict Describe(const Model& model, int function, const WeightSite& site) {
  WeightVerdict v;
  v.function = function;
  const Graph& graph = GraphOf(model, function);
  const Value& value = graph.value(site.value);
  v.value = site.value;
  v.weight = function < 0 ? value.name : model.functions[static_cast<size_t>(function)].name + "::" + value.name;
  for (const WeightReader& r : site.readers) v.readers.push_back(r.node);
  v.node = graph.NodeLabel(v.readers[0]);
  v.op_type = graph.node(v.readers[0]).op_type;
  v.dims = value.constant->dims();
  v.elements = value.constant->size();
  return v;
}

Status Decide(const Graph& graph, int64_t ir_version, const WeightSite& site, const QuantizeOptions& options,
              WeightRules& rules, WeightVerdict& verdict) {
  RETURN_IF_ERROR(CheckFormat(verdict.format, options));
  verdict.reason = WhyNotInteger(graph, verdict.function, site, options);
  if (!verdict.reason.empty()) {
    verdict.kind = VerdictKind::kUnsupported;
    return OkStatus();
  }
  auto answer = ChooseForms(graph, site, verdict.format, options);
  if (auto* reason = std::get_if<std::string>(&answer)) {
    verdict.kind = VerdictKind::kUnsupported;
    verdict.reason = *reason;
    return OkStatus();
  }
  const auto& groups = std::get<std::vector<FormGroup>>(answer);
  if (graph.value(site.value).is_input && ir_version >= 4) {
    verdict.warning = "was a graph input with a default and is none any more";
  }
  verdict.kind = VerdictKind::kQuantized;
  verdict.spec = groups[0].form.spec;
  for (const FormGroup& group : groups) {
    ASSIGN_OR_RETURN(const QuantizedWeight quantized, QuantizeInForm(verdict.weight, group.form));
    verdict.bits += quantized.bits * CodeSets(group);
    verdict.reason += (verdict.reason.empty() ? "" : "; ") + Describe(graph, group);
    if (!group.form.warning.empty()) verdict.warning += (verdict.warning.empty() ? "" : "; ") + group.form.warning;
    if (!group.form.requested.empty()) rules.NoteRequested(group.form.requested);
  }
  return OkStatus();
}

Status PlanGraph(const Model& model, int function, const QuantizeOptions& options, WeightRules& rules,
                 QuantizePlan& plan) {
  const Graph& graph = GraphOf(model, function);
  const WeightInventory inventory = FindWeights(graph);
  const FloatGuard guard = FindGuardedNodes(graph);
  plan.small_constants += inventory.small_constants;
  plan.small_elements += inventory.small_elements;
  for (const WeightSite& site : inventory.weights) {
    WeightVerdict verdict = Describe(model, function, site);
    ASSIGN_OR_RETURN(WeightRules::Ruling ruling, rules.RuleOn(graph, guard, site));
    verdict.rule = std::move(ruling.rule);
    verdict.format = std::move(ruling.format);
    verdict.reason = std::move(ruling.skipped);
    if (verdict.reason.empty()) {
      RETURN_IF_ERROR(Decide(graph, model.ir_version, site, options, rules, verdict));
    } else {
      verdict.kind = VerdictKind::kSkipped;
    }
    plan.verdicts.push_back(std::move(verdict));
  }
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

const Graph& GraphOf(const Model& model, int function) {
  return function < 0 ? model.graph : model.functions[static_cast<size_t>(function)].body;
}
Graph& GraphOf(Model& model, int function) {
  return function < 0 ? model.graph : model.functions[static_cast<size_t>(function)].body;
}

StatusOr<QuantizePlan> PlanWeights(const Model& model, const QuantizeOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(WeightRules rules, WeightRules::Make(model, options));
  QuantizePlan plan;
  for (int function = -1; function < static_cast<int>(model.functions.size()); ++function) {
    RETURN_IF_ERROR(PlanGraph(model, function, options, rules, plan));
  }
  std::vector<std::string> names;
  for (const WeightVerdict& v : plan.verdicts) names.push_back(v.weight);
  RETURN_IF_ERROR(rules.CheckAllUsed(names));
  return plan;
}

}  // namespace quant
