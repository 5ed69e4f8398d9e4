#include <algorithm>
#include <unordered_map>

#include "libquant/model/opset.h"
#include "passes/quant/emit_weight.h"
#include "passes/quant/weight_quant.h"

namespace quant {
namespace {

constexpr int64_t kOpsetOfAxis = 13;  // DequantizeLinear with an axis
constexpr int64_t kOpsetOfHalfScales = 19;
constexpr int64_t kOpsetOfBlocks = 21;

int64_t OpsetFor(const WeightForm& form) {
  if (form.kind == FormKind::kNBits) return 0;
  int64_t opset = std::max(kOpsetOfAxis, form.spec.format->min_opset);
  if (form.spec.scale_dtype == DType::kFloat16) opset = std::max(opset, kOpsetOfHalfScales);
  if (form.spec.granularity == Granularity::kGroup) opset = std::max(opset, kOpsetOfBlocks);
  return opset;
}

struct Job {
  WeightSite site;
  WeightForm form;
};

StatusOr<std::vector<Job>> JobsOf(const Graph& graph, const QuantizeOptions& options, const QuantizePlan& plan) {
  std::unordered_map<ValueId, const WeightVerdict*> chosen;
  for (const WeightVerdict& v : plan.verdicts) {
    if (v.kind == VerdictKind::kQuantized) chosen[v.value] = &v;
  }
  std::vector<Job> jobs;
  for (WeightSite& site : FindWeights(graph).weights) {
    auto it = chosen.find(site.value);
    if (it == chosen.end()) continue;
    auto answer = ChooseForm(graph, site, options);
    if (auto* reason = std::get_if<std::string>(&answer)) {
      return BugError("{} was planned and then refused: {}", it->second->weight, *reason);
    }
    auto& form = std::get<WeightForm>(answer);
    form.spec = it->second->spec;
    jobs.push_back({std::move(site), std::move(form)});
  }
  if (jobs.size() != chosen.size()) return BugError("{} weights were planned, {} found", chosen.size(), jobs.size());
  return jobs;
}

// A quantized weight that was an initializer and a graph input is neither any more.
void DropAsInput(Graph& graph, ValueId v) {
  Value& value = graph.value(v);
  if (!value.is_input || !value.uses.empty()) return;
  value.is_input = false;
  std::erase(graph.region(value.region).inputs, v);
}

}  // namespace

Status ApplyPlan(Model& model, const QuantizeOptions& options, QuantizePlan& plan) {
  ASSIGN_OR_RETURN(std::vector<Job> jobs, JobsOf(model.graph, options, plan));
  int64_t opset = 0;
  bool nbits = false;
  int64_t ir_version = 0;
  for (const Job& job : jobs) {
    opset = std::max(opset, OpsetFor(job.form));
    nbits = nbits || job.form.kind == FormKind::kNBits;
  }
  if (opset > model.OpsetOf("")) {
    RETURN_IF_ERROR(RaiseOpset(model, opset));
    ASSIGN_OR_RETURN(jobs, JobsOf(model.graph, options, plan));  // conversion may have replaced nodes
  }
  if (nbits && model.OpsetOf("com.microsoft") == 0) model.SetOpset("com.microsoft", 1);
  for (const Job& job : jobs) {
    ASSIGN_OR_RETURN(QuantizedWeight weight, QuantizeInForm(model.graph.value(job.site.value), job.form));
    ir_version = std::max<int64_t>(ir_version, InfoOf(weight.codes.dtype()).min_ir_version);
    RETURN_IF_ERROR(EmitWeight(model.graph, job.site, job.form, weight, options));
    DropAsInput(model.graph, job.site.value);
  }
  // New initializers are no graph inputs, which a file may say from IR 4.
  if (!jobs.empty()) RaiseIrVersion(model, std::max<int64_t>(4, ir_version));
  model.graph.RemoveUnused();
  RETURN_IF_ERROR(Verify(model.graph));
  return OkStatus();
}

}  // namespace quant
