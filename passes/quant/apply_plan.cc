#include <algorithm>
#include <map>
#include <utility>

#include "libquant/model/opset.h"
#include "libquant/model/read.h"
#include "passes/quant/emit_weight.h"
#include "passes/quant/keep_half.h"
#include "passes/quant/weight_quant.h"

namespace quant {
namespace {

constexpr int64_t kOpsetOfAxis = 13;     // DequantizeLinear with an axis
constexpr int64_t kOpsetOfDynamic = 13;  // DynamicQuantizeLinear, Unsqueeze with its axes as an input
constexpr int64_t kOpsetOfHalfScales = 19;
constexpr int64_t kOpsetOfBlocks = 21;

int64_t OpsetFor(const WeightForm& form) {
  if (form.kind == FormKind::kDynamic) return kOpsetOfDynamic;
  if (form.kind != FormKind::kDequantize) return 0;
  int64_t opset = std::max(kOpsetOfAxis, form.spec.format->min_opset);
  if (form.spec.scale_dtype == DType::kFloat16) opset = std::max(opset, kOpsetOfHalfScales);
  if (form.block > 0) opset = std::max(opset, kOpsetOfBlocks);
  return opset;
}

struct Job {
  const WeightVerdict* verdict;
  std::vector<FormGroup> groups;
};

StatusOr<std::vector<Job>> JobsOf(const Model& model, const QuantizeOptions& options, const QuantizePlan& plan) {
  std::map<std::pair<int, ValueId>, const WeightVerdict*> chosen;
  for (const WeightVerdict& v : plan.verdicts) {
    if (v.kind == VerdictKind::kQuantized) chosen[{v.function, v.value}] = &v;
  }
  std::vector<Job> jobs;
  for (int function = -1; function < static_cast<int>(model.functions.size()); ++function) {
    const Graph& graph = GraphOf(model, function);
    for (const WeightSite& site : FindWeights(graph).weights) {
      auto it = chosen.find({function, site.value});
      if (it == chosen.end()) continue;
      auto answer = ChooseForms(graph, site, it->second->format, options);
      if (auto* reason = std::get_if<std::string>(&answer)) {
        return BugError("{} was planned and then refused: {}", it->second->weight, *reason);
      }
      jobs.push_back({it->second, std::move(std::get<std::vector<FormGroup>>(answer))});
    }
  }
  if (jobs.size() != chosen.size()) return BugError("{} weights were planned, {} found", chosen.size(), jobs.size());
  return jobs;
}

// A weight that was an initializer and a graph input, and that nothing reads any more, is neither.
void DropAsInput(Graph& graph, ValueId v) {
  Value& value = graph.value(v);
  if (value.removed || !value.is_input || !value.uses.empty()) return;
  value.is_input = false;
  std::erase(graph.region(value.region).inputs, v);
}

void ImportMicrosoft(Model& model, const WeightVerdict& verdict) {
  constexpr std::string_view kDomain = "com.microsoft";
  if (model.OpsetOf(kDomain) == 0) model.SetOpset(kDomain, 1);
  if (verdict.function < 0) return;
  auto& opsets = model.functions[static_cast<size_t>(verdict.function)].opsets;
  const bool there = std::any_of(opsets.begin(), opsets.end(), [&](const auto& o) { return o.first == kDomain; });
  if (!there) opsets.emplace_back(kDomain, 1);
}

// The oldest default opset that the graph or a function imports.
int64_t OldestOpset(const Model& model) {
  int64_t oldest = model.OpsetOf("");
  for (const Function& function : model.functions) {
    for (const auto& [domain, version] : function.opsets) {
      if (domain.empty() || domain == "ai.onnx") oldest = std::min(oldest, version);
    }
  }
  return oldest;
}

void RemoveUnused(Model& model) {
  model.graph.RemoveUnused();
  for (Function& function : model.functions) function.body.RemoveUnused();
}

}  // namespace

Status ApplyPlan(Model& model, const QuantizeOptions& options, QuantizePlan& plan) {
  ASSIGN_OR_RETURN(std::vector<Job> jobs, JobsOf(model, options, plan));
  int64_t opset = 0;
  int64_t ir_version = 0;
  for (const Job& job : jobs) {
    for (const FormGroup& group : job.groups) opset = std::max(opset, OpsetFor(group.form));
  }
  if (opset > OldestOpset(model)) {
    RETURN_IF_ERROR(RaiseOpset(model, opset));
    ASSIGN_OR_RETURN(jobs, JobsOf(model, options, plan));  // conversion may have replaced nodes
  }
  for (const Job& job : jobs) {
    Graph& graph = GraphOf(model, job.verdict->function);
    for (const FormGroup& group : job.groups) {
      if (group.form.kind == FormKind::kNBits) ImportMicrosoft(model, *job.verdict);
      ASSIGN_OR_RETURN(const QuantizedWeight weight, QuantizeInForm(job.verdict->weight, group.form));
      ir_version = std::max<int64_t>(ir_version, InfoOf(weight.codes.dtype()).min_ir_version);
      RETURN_IF_ERROR(EmitWeight(graph, job.verdict->value, group, weight, options));
    }
  }
  // New initializers are no graph inputs, which a file may say from IR 4.
  const bool keep_half = options.keep == Keep::kHalf;
  if (!jobs.empty() || keep_half) RaiseIrVersion(model, std::max<int64_t>(4, ir_version));
  if (keep_half) RETURN_IF_ERROR(KeepAsHalf(model, plan));
  RemoveUnused(model);
  for (const WeightVerdict& v : plan.verdicts) DropAsInput(GraphOf(model, v.function), v.value);
  RemoveUnused(model);
  for (int f = -1; f < static_cast<int>(model.functions.size()); ++f) {
    if (options.activations == "dynamic") RETURN_IF_ERROR(GraphOf(model, f).SortTopologically());
    RETURN_IF_ERROR(Verify(GraphOf(model, f)));
  }
  return OkStatus();
}

int64_t EstimateBytes(const Model& model, const QuantizePlan& plan, const QuantizeOptions& options) {
  int64_t bytes = SourceBytes(model);
  for (const WeightVerdict& v : plan.verdicts) {
    const Tensor& weight = *GraphOf(model, v.function).value(v.value).constant;
    if (v.kind == VerdictKind::kQuantized) {
      bytes += v.bits / 8 - weight.byte_size();
    } else if (options.keep == Keep::kHalf && weight.dtype() == DType::kFloat) {
      bytes -= weight.byte_size() / 2;
    }
  }
  return bytes;
}

}  // namespace quant
