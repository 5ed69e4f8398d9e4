#include "libquant/exec/session.h"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <set>
#include <unordered_map>

#include "libquant/exec/buffer_pool.h"
#include "libquant/exec/constant_store.h"
#include "libquant/exec/control_flow.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

// The operator's kernel at the opset the model imports, or null.
const OpDef* KernelOf(const Model& model, const Node& node) {
  const OpDef* op = FindOp(node.domain, node.op_type);
  if (op == nullptr || (op->eval == nullptr) != IsControlFlow(node)) return nullptr;
  return op->since.empty() || model.OpsetOf(node.domain) >= op->since.front() ? op : nullptr;
}

struct Step {
  NodeId node = kNoNode;
  const OpDef* op = nullptr;
  int64_t version = 0;
  std::unique_ptr<bool[]> wanted;   // per output; vector<bool> has no span
  std::vector<ValueId> reads;       // inputs, and for control flow what its bodies capture
  std::vector<ValueId> last_reads;  // values that nothing reads after this step
};

using Schedule = std::vector<Step>;  // of one region
using Live = std::unordered_map<ValueId, Tensor>;

std::string DescribeInputs(std::span<const Tensor* const> inputs) {
  std::string out;
  for (const Tensor* t : inputs) out += (out.empty() ? "" : ", ") + (t == nullptr ? "-" : Describe(*t));
  return out;
}

// Runs `body`; what it throws becomes a Status.
template <typename Body>
auto Caught(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return DataError("there is not enough memory");
  } catch (const std::exception& e) {
    return BugError("unexpected: {}", e.what());
  }
}

class SessionImpl : public Session, private BodyRunner {
 public:
  SessionImpl(const Model& model, SessionOptions options)
      : model_(model),
        graph_(model.graph),
        options_(options),
        constants_(model.graph),
        allocator_([this](int64_t bytes) { return pool_.Get(bytes); }) {}

  Status Prepare();
  StatusOr<NamedTensors> Run(const NamedTensors& feeds, const Probe& probe) override {
    return Caught([&] { return RunChecked(feeds, probe); });
  }

 private:
  StatusOr<NamedTensors> RunChecked(const NamedTensors& feeds, const Probe& probe);
  StatusOr<Step> StepFor(NodeId id) const;
  Status FoldOrSchedule();
  Status ScheduleRegion(RegionId region, std::unordered_map<ValueId, int>& readers);
  Status FinishRegion(RegionId region);
  std::vector<ValueId> CapturedBy(const Node& node) const;
  StatusOr<bool> TryFold(const Step& step, std::unordered_map<ValueId, int>& readers);
  Status CheckFeeds(const NamedTensors& feeds) const;
  Status CheckFeed(const InputSpec& spec, const Tensor& tensor,
                   std::map<std::string, std::pair<int64_t, std::string>>& sizes) const;
  StatusOr<std::vector<Tensor>> Evaluate(const Step& step, std::span<const Tensor* const> inputs);
  StatusOr<std::vector<Tensor>> EvaluateKernel(const Step& step, std::span<const Tensor* const> inputs);
  Status RunRegion(RegionId region);
  StatusOr<std::vector<Tensor>> RunBody(RegionId body, std::vector<Tensor> inputs) override;
  const Tensor* Find(ValueId v) const;

  const Model& model_;
  const Graph& graph_;
  SessionOptions options_;
  ConstantStore constants_;
  BufferPool pool_;
  KernelContext::Allocator allocator_;
  std::vector<InputSpec> inputs_;
  std::unordered_map<ValueId, Tensor> resident_;  // constants that runs read
  std::map<RegionId, Schedule> schedules_;
  // Of the run that is under way. Values have one id each and no body runs inside itself, so one map serves all.
  Live live_;
  const Probe* probe_ = nullptr;
};

StatusOr<Step> SessionImpl::StepFor(NodeId id) const {
  const Node& node = graph_.node(id);
  Step step;
  step.node = id;
  step.op = KernelOf(model_, node);
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
  if (IsControlFlow(node)) {
    const std::vector<ValueId> captured = CapturedBy(node);
    step.reads.insert(step.reads.end(), captured.begin(), captured.end());
  }
  step.wanted = std::make_unique<bool[]>(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) step.wanted[i] = node.outputs[i] != kNoValue;
  return step;
}

Status SessionImpl::Prepare() {
  const std::vector<std::string> missing = OpsWithoutKernel(model_);
  if (!missing.empty()) {
    std::string list;
    for (const std::string& op : missing) list += (list.empty() ? "" : ", ") + op;
    return Unsupported("the executor has no kernel for {}", list);
  }
  inputs_ = RequiredInputs(model_);
  return FoldOrSchedule();
}

Status SessionImpl::FoldOrSchedule() {
  std::unordered_map<ValueId, int> readers;  // of constants, still to come
  for (RegionId r = 0; r < graph_.region_count(); ++r) {
    if (graph_.region(r).removed) continue;
    for (ValueId v : graph_.region(r).outputs) ++readers[v];
    for (NodeId id : graph_.region(r).nodes) {
      for (ValueId v : graph_.node(id).inputs) {
        if (v != kNoValue) ++readers[v];
      }
    }
  }
  RETURN_IF_ERROR(ScheduleRegion(kMainRegion, readers));
  for (auto& entry : schedules_) RETURN_IF_ERROR(FinishRegion(entry.first));
  constants_.Clear();
  return OkStatus();
}

Status SessionImpl::ScheduleRegion(RegionId region, std::unordered_map<ValueId, int>& readers) {
  Schedule schedule;
  for (NodeId id : graph_.region(region).nodes) {
    const Node& node = graph_.node(id);
    const bool known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId v) { return v == kNoValue || constants_.Has(v); });
    if (known && !node.outputs.empty()) continue;  // a Constant node
    ASSIGN_OR_RETURN(Step step, StepFor(id));
    if (IsControlFlow(node)) {
      for (RegionId body : BodiesOf(node)) RETURN_IF_ERROR(ScheduleRegion(body, readers));
    } else {
      const StatusOr<bool> folded = TryFold(step, readers);
      // What a branch that is never taken gets wrong is no error.
      if (!folded.ok() && region == kMainRegion) return folded.status();
      if (folded.ok() && *folded) continue;
    }
    schedule.push_back(std::move(step));
  }
  schedules_[region] = std::move(schedule);
  return OkStatus();
}

// What runs need stays; where a value is read last decides when it goes. What a body reads from outside stays with the
// node that holds the body.
Status SessionImpl::FinishRegion(RegionId region) {
  Schedule& steps = schedules_[region];
  const auto keep = [&](ValueId v) -> Status {
    if (!constants_.Has(v) || resident_.contains(v)) return OkStatus();
    ASSIGN_OR_RETURN(resident_[v], constants_.Get(v));
    return OkStatus();
  };
  std::unordered_map<ValueId, size_t> last;
  for (size_t s = 0; s < steps.size(); ++s) {
    const Node& node = graph_.node(steps[s].node);
    for (ValueId v : steps[s].reads) {
      RETURN_IF_ERROR(keep(v));
      if (!resident_.contains(v) && graph_.value(v).region == region) last[v] = s;
    }
    for (ValueId v : node.outputs) {
      if (v != kNoValue) last[v] = s;
    }
  }
  for (ValueId v : graph_.region(region).outputs) {
    last.erase(v);
    RETURN_IF_ERROR(keep(v));
  }
  for (const auto& [v, s] : last) steps[s].last_reads.push_back(v);
  return OkStatus();
}

// Values from around the bodies of a node that nodes or outputs of the bodies read.
std::vector<ValueId> SessionImpl::CapturedBy(const Node& node) const {
  std::set<ValueId> read;
  std::set<RegionId> inside;
  std::vector<RegionId> open = BodiesOf(node);
  while (!open.empty()) {
    const RegionId body = open.back();
    open.pop_back();
    inside.insert(body);
    for (ValueId v : graph_.region(body).outputs) read.insert(v);
    for (NodeId n : graph_.region(body).nodes) {
      for (ValueId v : graph_.node(n).inputs) {
        if (v != kNoValue) read.insert(v);
      }
      for (RegionId nested : BodiesOf(graph_.node(n))) open.push_back(nested);
    }
  }
  std::vector<ValueId> out;
  for (ValueId v : read) {
    if (!inside.contains(graph_.value(v).region)) out.push_back(v);
  }
  return out;
}

StatusOr<bool> SessionImpl::TryFold(const Step& step, std::unordered_map<ValueId, int>& readers) {
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
  ASSIGN_OR_RETURN(std::vector<Tensor> outputs, Evaluate(step, inputs));
  int64_t bytes = 0;
  for (const Tensor& t : outputs) bytes += t.byte_size();
  if (bytes > options_.max_folded_bytes) return false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) constants_.Put(node.outputs[i], std::move(outputs[i]));
  }
  for (ValueId v : node.inputs) {
    if (v != kNoValue && --readers[v] == 0) constants_.Drop(v);
  }
  return true;
}

Status SessionImpl::CheckFeed(const InputSpec& spec, const Tensor& tensor,
                              std::map<std::string, std::pair<int64_t, std::string>>& sizes) const {
  if (spec.dtype != DType::kUndefined && tensor.dtype() != spec.dtype) {
    return DataError("input {} wants {}, the sample has {}", spec.name, NameOf(spec.dtype), NameOf(tensor.dtype()));
  }
  if (!spec.shape) return OkStatus();
  const auto mismatch = [&] {
    return DataError("input {} wants {}, the sample has {}", spec.name, ToString(*spec.shape), ToString(tensor.dims()));
  };
  if (spec.shape->size() != tensor.dims().size()) return mismatch();
  for (size_t i = 0; i < tensor.dims().size(); ++i) {
    const Dim& dim = (*spec.shape)[i];
    const int64_t got = tensor.dims()[i];
    if (dim.known() && dim.value != got) return mismatch();
    if (dim.known() || dim.symbol.empty()) continue;
    const auto [it, fresh] = sizes.try_emplace(dim.symbol, got, spec.name);
    if (!fresh && it->second.first != got) {
      return DataError("dimension {} is {} in input {} but {} in input {}", dim.symbol, it->second.first,
                       it->second.second, got, spec.name);
    }
  }
  return OkStatus();
}

Status SessionImpl::CheckFeeds(const NamedTensors& feeds) const {
  std::string wanted;
  for (const InputSpec& spec : inputs_) wanted += (wanted.empty() ? "" : ", ") + spec.name;
  const auto& inputs = graph_.main().inputs;
  for (const auto& feed : feeds) {
    const std::string& name = feed.first;
    const bool known = std::any_of(inputs_.begin(), inputs_.end(), [&](const InputSpec& s) { return s.name == name; });
    if (known) continue;
    const bool has_value =
        std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return graph_.value(v).name == name; });
    if (has_value) return DataError("input {} has its value in the model and takes no other; feed {}", name, wanted);
    return DataError("the model has no input {}; it wants {}", name, wanted);
  }
  std::map<std::string, std::pair<int64_t, std::string>> sizes;
  for (const InputSpec& spec : inputs_) {
    const Tensor* tensor = FindTensor(feeds, spec.name);
    if (tensor == nullptr) return DataError("input {} is not fed; the model wants {}", spec.name, wanted);
    RETURN_IF_ERROR(CheckFeed(spec, *tensor, sizes));
  }
  return OkStatus();
}

StatusOr<std::vector<Tensor>> SessionImpl::EvaluateKernel(const Step& step, std::span<const Tensor* const> inputs) {
  const Node& node = graph_.node(step.node);
  KernelContext context(node.attributes, step.version, inputs, {step.wanted.get(), node.outputs.size()}, allocator_);
  RETURN_IF_ERROR(Caught([&] { return step.op->eval(context); }));
  return std::move(context.outputs());
}

StatusOr<std::vector<Tensor>> SessionImpl::Evaluate(const Step& step, std::span<const Tensor* const> inputs) {
  const Node& node = graph_.node(step.node);
  StatusOr<std::vector<Tensor>> outputs =
      IsControlFlow(node) ? RunControlFlow(graph_, node, inputs, *this) : EvaluateKernel(step, inputs);
  Status status = outputs.status();
  for (size_t i = 0; status.ok() && i < node.outputs.size(); ++i) {
    if (step.wanted[i] && !(*outputs)[i].defined()) status = BugError("output {} was not made", i);
  }
  if (status.ok()) return outputs;
  return WithContext(status, fmt::format("node {} ({}; inputs {})", graph_.NodeLabel(step.node), node.op_type,
                                         DescribeInputs(inputs)));
}

const Tensor* SessionImpl::Find(ValueId v) const {
  if (auto it = resident_.find(v); it != resident_.end()) return &it->second;
  auto it = live_.find(v);
  return it == live_.end() ? nullptr : &it->second;
}

Status SessionImpl::RunRegion(RegionId region) {
  for (const Step& step : schedules_.at(region)) {
    const Node& node = graph_.node(step.node);
    std::vector<const Tensor*> inputs;
    for (ValueId v : node.inputs) inputs.push_back(v == kNoValue ? nullptr : Find(v));
    // A body's run may move what the map holds: control flow gets tensors of its own, which share their bytes.
    std::vector<Tensor> held;
    if (IsControlFlow(node)) {
      held.reserve(inputs.size());
      for (const Tensor*& input : inputs) {
        if (input != nullptr) input = &held.emplace_back(*input);
      }
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> outputs, Evaluate(step, inputs));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (v == kNoValue) continue;
      if (*probe_) RETURN_IF_ERROR((*probe_)(graph_.value(v).name, outputs[i]));
      live_[v] = std::move(outputs[i]);
    }
    for (ValueId v : step.last_reads) live_.erase(v);
  }
  return OkStatus();
}

StatusOr<std::vector<Tensor>> SessionImpl::RunBody(RegionId body, std::vector<Tensor> inputs) {
  const Region& region = graph_.region(body);
  for (size_t i = 0; i < inputs.size(); ++i) live_[region.inputs[i]] = std::move(inputs[i]);
  RETURN_IF_ERROR(RunRegion(body));
  std::vector<Tensor> outputs;
  for (ValueId v : region.outputs) {
    const Tensor* tensor = Find(v);
    if (tensor == nullptr) return BugError("output {} was not made", graph_.value(v).name);
    outputs.push_back(*tensor);
  }
  for (ValueId v : region.inputs) live_.erase(v);
  for (ValueId v : region.outputs) {
    if (graph_.value(v).region == body) live_.erase(v);
  }
  return outputs;
}

StatusOr<NamedTensors> SessionImpl::RunChecked(const NamedTensors& feeds, const Probe& probe) {
  RETURN_IF_ERROR(CheckFeeds(feeds));
  live_.clear();
  probe_ = &probe;
  for (ValueId v : graph_.main().inputs) {
    if (const Tensor* tensor = FindTensor(feeds, graph_.value(v).name)) {
      ASSIGN_OR_RETURN(live_[v], tensor->Materialize());
    }
  }
  RETURN_IF_ERROR(RunRegion(kMainRegion));
  NamedTensors out;
  for (ValueId v : graph_.main().outputs) {
    const Tensor* tensor = Find(v);
    if (tensor == nullptr) return BugError("output {} was not made", graph_.value(v).name);
    out.emplace_back(graph_.value(v).name, *tensor);
  }
  live_.clear();
  return out;
}

}  // namespace

StatusOr<std::unique_ptr<Session>> Session::Create(const Model& model, SessionOptions options) {
  auto session = std::make_unique<SessionImpl>(model, options);
  RETURN_IF_ERROR(Caught([&] { return session->Prepare(); }));
  return std::unique_ptr<Session>(std::move(session));
}

std::vector<std::string> OpsWithoutKernel(const Model& model) {
  std::set<std::string> missing;
  for (NodeId id : model.graph.AllNodes()) {
    const Node& node = model.graph.node(id);
    if (node.op_type == "Constant" && node.domain.empty()) continue;  // known without running
    if (KernelOf(model, node) != nullptr) continue;
    missing.insert(fmt::format("{} ({} {})", node.op_type, node.domain.empty() ? "ai.onnx" : node.domain,
                               model.OpsetOf(node.domain)));
  }
  return {missing.begin(), missing.end()};
}

}  // namespace quant
