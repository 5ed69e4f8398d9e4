#include "libquant/exec/schedule.h"

#include <algorithm>
#include <set>

#include "libquant/exec/constant_store.h"
#include "libquant/ops/find_kernel.h"

namespace quant {
namespace {

// Values from around the bodies of a node that nodes or outputs of the bodies read.
std::vector<ValueId> CapturedBy(const Graph& graph, const Node& node) {
  std::set<ValueId> read;
  std::set<RegionId> inside;
  std::vector<RegionId> open = BodiesOf(node);
  while (!open.empty()) {
    const RegionId body = open.back();
    open.pop_back();
    inside.insert(body);
    for (ValueId v : graph.region(body).outputs) read.insert(v);
    for (NodeId n : graph.region(body).nodes) {
      for (ValueId v : graph.node(n).inputs) {
        if (v != kNoValue) read.insert(v);
      }
      for (RegionId nested : BodiesOf(graph.node(n))) open.push_back(nested);
    }
  }
  std::vector<ValueId> out;
  for (ValueId v : read) {
    if (!inside.contains(graph.value(v).region)) out.push_back(v);
  }
  return out;
}

class Scheduler {
 public:
  Scheduler(const Model& model, int64_t max_folded_bytes, const Evaluator& evaluate)
      : model_(model),
        graph_(model.graph),
        max_folded_bytes_(max_folded_bytes),
        evaluate_(evaluate),
        constants_(model.graph) {}

  StatusOr<Schedule> Run() {
    CountReaders();
    RETURN_IF_ERROR(ScheduleRegion(kMainRegion));
    for (auto& [region, steps] : out_.regions) {
      RETURN_IF_ERROR(FinishRegion(region, steps));
      FindTails(steps);
    }
    return std::move(out_);
  }

 private:
  void CountReaders();
  StatusOr<Step> StepFor(NodeId id) const;
  Status ScheduleRegion(RegionId region);
  StatusOr<bool> TryFold(Step& step);
  Status Keep(ValueId v);
  Status FinishRegion(RegionId region, std::vector<Step>& steps);
  void FindTails(std::vector<Step>& steps) const;

  const Model& model_;
  const Graph& graph_;
  const int64_t max_folded_bytes_;
  const Evaluator& evaluate_;
  ConstantStore constants_;
  std::unordered_map<ValueId, int> readers_;  // of constants, still to come
  Schedule out_;
};

void Scheduler::CountReaders() {
  for (RegionId r = 0; r < graph_.region_count(); ++r) {
    if (graph_.region(r).removed) continue;
    for (ValueId v : graph_.region(r).outputs) ++readers_[v];
    for (NodeId id : graph_.region(r).nodes) {
      for (ValueId v : graph_.node(id).inputs) {
        if (v != kNoValue) ++readers_[v];
      }
    }
  }
}

StatusOr<Step> Scheduler::StepFor(NodeId id) const {
  const Node& node = graph_.node(id);
  Step step;
  step.node = id;
  step.op = FindKernel(node.domain, node.op_type, model_.OpsetOf(node.domain));
  step.version = model_.OpsetOf(node.domain);
  for (int i = 0; i < step.op->min_inputs; ++i) {
    const auto at = static_cast<size_t>(i);
    if (at >= node.inputs.size() || node.inputs[at] == kNoValue) {
      return DataError("node {}: {} lacks input {}", graph_.NodeLabel(id), node.op_type, i);
    }
  }
  for (ValueId v : node.inputs) {
    if (v != kNoValue) step.reads.push_back(v);
  }
  if (RunsBodies(*step.op)) {
    const std::vector<ValueId> captured = CapturedBy(graph_, node);
    step.reads.insert(step.reads.end(), captured.begin(), captured.end());
  }
  step.wanted = std::make_unique<bool[]>(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) step.wanted[i] = node.outputs[i] != kNoValue;
  step.constant = std::make_unique<bool[]>(node.inputs.size());
  step.last_read = std::make_unique<bool[]>(node.inputs.size());
  return step;
}

Status Scheduler::ScheduleRegion(RegionId region) {
  std::vector<Step> steps;
  for (NodeId id : graph_.region(region).nodes) {
    const Node& node = graph_.node(id);
    const bool known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId v) { return v == kNoValue || constants_.Has(v); });
    if (known && !node.outputs.empty()) continue;  // a Constant node
    ASSIGN_OR_RETURN(Step step, StepFor(id));
    if (RunsBodies(*step.op)) {
      for (RegionId body : BodiesOf(node)) RETURN_IF_ERROR(ScheduleRegion(body));
    } else {
      const StatusOr<bool> folded = TryFold(step);
      // What a branch that is never taken gets wrong is no error.
      if (!folded.ok() && region == kMainRegion) return folded.status();
      if (folded.ok() && *folded) continue;
    }
    steps.push_back(std::move(step));
  }
  out_.regions[region] = std::move(steps);
  return OkStatus();
}

StatusOr<bool> Scheduler::TryFold(Step& step) {
  const Node& node = graph_.node(step.node);
  if (!std::all_of(node.inputs.begin(), node.inputs.end(),
                   [&](ValueId v) { return v == kNoValue || constants_.Has(v); })) {
    return false;
  }
  std::vector<Tensor> held(node.inputs.size());
  std::vector<const Tensor*> inputs(node.inputs.size(), nullptr);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    ASSIGN_OR_RETURN(held[i], constants_.Get(node.inputs[i]));
    inputs[i] = &held[i];
  }
  ASSIGN_OR_RETURN(std::vector<Tensor> outputs, evaluate_(step, inputs));
  int64_t bytes = 0;
  for (const Tensor& t : outputs) bytes += t.byte_size();
  if (bytes > max_folded_bytes_) return false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) constants_.Put(node.outputs[i], std::move(outputs[i]));
  }
  for (ValueId v : node.inputs) {
    if (v != kNoValue && --readers_[v] == 0) constants_.Drop(v);
  }
  return true;
}

Status Scheduler::Keep(ValueId v) {
  if (!constants_.Has(v) || out_.constants.contains(v)) return OkStatus();
  ASSIGN_OR_RETURN(out_.constants[v], constants_.Get(v));
  return OkStatus();
}

// What runs need stays; where a value is read last decides when it goes. What a body reads from outside stays with the
// node that holds the body.
Status Scheduler::FinishRegion(RegionId region, std::vector<Step>& steps) {
  std::unordered_map<ValueId, size_t> last;
  for (size_t s = 0; s < steps.size(); ++s) {
    const Node& node = graph_.node(steps[s].node);
    for (ValueId v : steps[s].reads) {
      RETURN_IF_ERROR(Keep(v));
      if (!out_.constants.contains(v) && graph_.value(v).region == region) last[v] = s;
    }
    for (ValueId v : node.outputs) {
      if (v != kNoValue) last[v] = s;
    }
  }
  for (ValueId v : graph_.region(region).outputs) {
    last.erase(v);
    RETURN_IF_ERROR(Keep(v));
  }
  for (const auto& [v, s] : last) steps[s].last_reads.push_back(v);
  for (size_t s = 0; s < steps.size(); ++s) {
    const Node& node = graph_.node(steps[s].node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto read = last.find(node.inputs[i]);
      steps[s].last_read[i] = read != last.end() && read->second == s;
      steps[s].constant[i] = out_.constants.contains(node.inputs[i]);
    }
  }
  return OkStatus();
}

// Chains of steps that can be tails of another: each reads what only it reads.
void Scheduler::FindTails(std::vector<Step>& steps) const {
  std::unordered_map<NodeId, size_t> step_of;
  for (size_t s = 0; s < steps.size(); ++s) step_of[steps[s].node] = s;
  for (Step& head : steps) {
    if (!head.op->applies_tail) continue;
    NodeId at = head.node;
    while (true) {
      const ValueId made = graph_.node(at).outputs.empty() ? kNoValue : graph_.node(at).outputs[0];
      if (made == kNoValue || graph_.value(made).uses.size() != 1) break;
      const Use use = graph_.value(made).uses[0];
      const auto next = use.node == kNoNode ? step_of.end() : step_of.find(use.node);
      if (next == step_of.end() || steps[next->second].op->as_tail == nullptr) break;
      if (graph_.node(use.node).outputs.size() != 1) break;
      head.tails.push_back(next->second);
      at = use.node;
    }
  }
}

}  // namespace

StatusOr<Schedule> MakeSchedule(const Model& model, int64_t max_folded_bytes, const Evaluator& evaluate) {
  return Scheduler(model, max_folded_bytes, evaluate).Run();
}

}  // namespace quant
