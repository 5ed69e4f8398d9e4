#include "libquant/exec/session.h"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <set>
#include <unordered_map>

#include "libquant/exec/buffer_pool.h"
#include "libquant/exec/constant_store.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

// The operator's kernel at the opset the model imports, or null.
const OpDef* KernelOf(const Model& model, const Node& node) {
  const OpDef* op = FindOp(node.domain, node.op_type);
  if (op == nullptr || op->eval == nullptr || !BodiesOf(node).empty()) return nullptr;
  return op->since.empty() || model.OpsetOf(node.domain) >= op->since.front() ? op : nullptr;
}

struct Step {
  NodeId node = kNoNode;
  const OpDef* op = nullptr;
  int64_t version = 0;
  std::unique_ptr<bool[]> wanted;   // per output; vector<bool> has no span
  std::vector<ValueId> last_reads;  // values that nothing reads after this step
};

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

class SessionImpl : public Session {
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
  StatusOr<bool> TryFold(const Step& step, std::unordered_map<ValueId, int>& readers);
  Status CheckFeeds(const NamedTensors& feeds) const;
  Status CheckFeed(const InputSpec& spec, const Tensor& tensor,
                   std::map<std::string, std::pair<int64_t, std::string>>& sizes) const;
  StatusOr<std::vector<Tensor>> Evaluate(const Step& step, std::span<const Tensor* const> inputs);

  const Model& model_;
  const Graph& graph_;
  SessionOptions options_;
  ConstantStore constants_;
  BufferPool pool_;
  KernelContext::Allocator allocator_;
  std::vector<InputSpec> inputs_;
  std::unordered_map<ValueId, Tensor> resident_;  // constants that runs read
  std::vector<Step> steps_;
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
  for (NodeId id : graph_.main().nodes) {
    for (ValueId v : graph_.node(id).inputs) {
      if (v != kNoValue) ++readers[v];
    }
  }
  for (ValueId v : graph_.main().outputs) ++readers[v];
  for (NodeId id : graph_.main().nodes) {
    const Node& node = graph_.node(id);
    const bool known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId v) { return v == kNoValue || constants_.Has(v); });
    if (known && !node.outputs.empty()) continue;  // a Constant node
    ASSIGN_OR_RETURN(Step step, StepFor(id));
    ASSIGN_OR_RETURN(const bool folded, TryFold(step, readers));
    if (!folded) steps_.push_back(std::move(step));
  }
  // What runs need stays; where a value is read last decides when it goes.
  std::unordered_map<ValueId, size_t> last;
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Node& node = graph_.node(steps_[s].node);
    for (ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      if (!constants_.Has(v)) {
        last[v] = s;
      } else if (!resident_.contains(v)) {
        ASSIGN_OR_RETURN(resident_[v], constants_.Get(v));
      }
    }
    for (ValueId v : node.outputs) {
      if (v != kNoValue) last[v] = s;
    }
  }
  for (ValueId v : graph_.main().outputs) {
    last.erase(v);
    if (constants_.Has(v) && !resident_.contains(v)) {
      ASSIGN_OR_RETURN(resident_[v], constants_.Get(v));
    }
  }
  for (const auto& [v, s] : last) steps_[s].last_reads.push_back(v);
  constants_.Clear();
  return OkStatus();
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

StatusOr<std::vector<Tensor>> SessionImpl::Evaluate(const Step& step, std::span<const Tensor* const> inputs) {
  const Node& node = graph_.node(step.node);
  KernelContext context(node.attributes, step.version, inputs, {step.wanted.get(), node.outputs.size()}, allocator_);
  Status status = Caught([&] { return step.op->eval(context); });
  if (status.ok()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (step.wanted[i] && !context.outputs()[i].defined()) status = BugError("output {} was not made", i);
    }
  }
  if (!status.ok()) {
    return WithContext(status, fmt::format("node {} ({}; inputs {})", graph_.NodeLabel(step.node), node.op_type,
                                           DescribeInputs(inputs)));
  }
  return std::move(context.outputs());
}

StatusOr<NamedTensors> SessionImpl::RunChecked(const NamedTensors& feeds, const Probe& probe) {
  RETURN_IF_ERROR(CheckFeeds(feeds));
  std::unordered_map<ValueId, Tensor> live;
  for (ValueId v : graph_.main().inputs) {
    if (const Tensor* tensor = FindTensor(feeds, graph_.value(v).name)) {
      ASSIGN_OR_RETURN(live[v], tensor->Materialize());
    }
  }
  const auto find = [&](ValueId v) -> const Tensor* {
    if (auto it = resident_.find(v); it != resident_.end()) return &it->second;
    auto it = live.find(v);
    return it == live.end() ? nullptr : &it->second;
  };
  for (const Step& step : steps_) {
    const Node& node = graph_.node(step.node);
    std::vector<const Tensor*> inputs;
    for (ValueId v : node.inputs) inputs.push_back(v == kNoValue ? nullptr : find(v));
    ASSIGN_OR_RETURN(std::vector<Tensor> outputs, Evaluate(step, inputs));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (v == kNoValue) continue;
      if (probe) RETURN_IF_ERROR(probe(graph_.value(v).name, outputs[i]));
      live[v] = std::move(outputs[i]);
    }
    for (ValueId v : step.last_reads) live.erase(v);
  }
  NamedTensors out;
  for (ValueId v : graph_.main().outputs) {
    const Tensor* tensor = find(v);
    if (tensor == nullptr) return BugError("output {} was not made", graph_.value(v).name);
    out.emplace_back(graph_.value(v).name, *tensor);
  }
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
