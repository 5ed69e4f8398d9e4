#include "libquant/exec/session.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "libquant/exec/buffer_pool.h"
#include "libquant/exec/check_feeds.h"
#include "libquant/exec/control_flow.h"
#include "libquant/exec/schedule.h"
#include "libquant/ops/find_kernel.h"

namespace quant {
namespace {

using Live = std::unordered_map<ValueId, Tensor>;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

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
  } catch (const std::length_error&) {  // a vector longer than any memory
    return DataError("there is not enough memory");
  } catch (const std::exception& e) {
    return BugError("unexpected: {}", e.what());
  }
}

// Lists and optionals without a value are for the operators that say so.
Status CheckKinds(const OpDef& op, std::span<const Tensor* const> inputs) {
  for (size_t i = 0; i < inputs.size() && !op.takes_lists; ++i) {
    if (inputs[i] == nullptr || (inputs[i]->list() == nullptr && inputs[i]->dtype() != DType::kNothing)) continue;
    return DataError("input {} is no tensor", i);
  }
  return OkStatus();
}

class SessionImpl : public Session, private BodyRunner {
 public:
  SessionImpl(const Model& model, SessionOptions options)
      : model_(model),
        graph_(model.graph),
        options_(options),
        pool_(options.pool ? options.pool : std::make_shared<BufferPool>(options.max_buffer_bytes)),
        allocator_([this](int64_t bytes) { return pool_->Get(bytes); }) {}

  Status Prepare();
  StatusOr<NamedTensors> Run(const NamedTensors& feeds, const RunHooks& hooks) override {
    return Caught([&] { return RunChecked(feeds, hooks); });
  }

 private:
  StatusOr<NamedTensors> RunChecked(const NamedTensors& feeds, const RunHooks& hooks);
  void ChooseSeen(const RunHooks& hooks);
  StatusOr<std::vector<Tensor>> Evaluate(Step& step, std::span<const Tensor* const> inputs,
                                         const TailMaker* tail = nullptr);
  StatusOr<std::vector<Tensor>> EvaluateKernel(Step& step, std::span<const Tensor* const> inputs,
                                               const TailMaker* tail);
  std::vector<const Tensor*> InputsOf(const Node& node) const;
  Tail ComposeTails(const std::vector<Step>& steps, const Step& head, const Dims& dims, size_t& taken) const;
  Status RunStep(std::vector<Step>& steps, Step& step, std::vector<bool>& done);
  Status RunRegion(RegionId region);
  StatusOr<std::vector<Tensor>> RunBody(RegionId body, std::vector<Tensor> inputs) override;
  const Tensor* Find(ValueId v) const;
  bool Seen(ValueId v) const { return !seen_.empty() && seen_[static_cast<size_t>(v)]; }

  const Model& model_;
  const Graph& graph_;
  SessionOptions options_;
  std::shared_ptr<BufferPool> pool_;
  KernelContext::Allocator allocator_;
  std::vector<InputSpec> inputs_;
  Schedule schedule_;
  // Of the run that is under way. Values have one id each and no body runs inside itself, so one map serves all.
  Live live_;
  int64_t body_runs_ = 0;
  const RunHooks* hooks_ = nullptr;
  double inner_seconds_ = 0;  // of the nodes and probes inside the node that is under way
  std::vector<bool> seen_;    // by value: the probe sees it; empty: it sees none
};

Status SessionImpl::Prepare() {
  const std::vector<std::string> missing = OpsWithoutKernel(model_);
  if (!missing.empty()) {
    std::string list;
    for (const std::string& op : missing) list += (list.empty() ? "" : ", ") + op;
    return Unsupported("the executor has no kernel for {}", list);
  }
  inputs_ = RequiredInputs(model_);
  const auto evaluate = [this](Step& step, std::span<const Tensor* const> inputs) { return Evaluate(step, inputs); };
  ASSIGN_OR_RETURN(schedule_, MakeSchedule(model_, options_.max_folded_bytes, evaluate));
  return OkStatus();
}

StatusOr<std::vector<Tensor>> SessionImpl::EvaluateKernel(Step& step, std::span<const Tensor* const> inputs,
                                                          const TailMaker* tail) {
  const Node& node = graph_.node(step.node);
  const KernelCall call = {
      .attributes = node.attributes,
      .version = step.version,
      .inputs = inputs,
      .wanted = {step.wanted.get(), node.outputs.size()},
      .constant = {step.constant.get(), node.inputs.size()},
      .last_read = {step.last_read.get(), node.inputs.size()},
      .memory = &step.memory,
      .tail = tail,
  };
  KernelContext context(call, allocator_);
  RETURN_IF_ERROR(CheckKinds(*step.op, inputs));
  RETURN_IF_ERROR(Caught([&] { return step.op->eval(context); }));
  return std::move(context.outputs());
}

StatusOr<std::vector<Tensor>> SessionImpl::Evaluate(Step& step, std::span<const Tensor* const> inputs,
                                                    const TailMaker* tail) {
  const Node& node = graph_.node(step.node);
  StatusOr<std::vector<Tensor>> outputs =
      RunsBodies(*step.op) ? RunControlFlow(graph_, node, inputs, *this) : EvaluateKernel(step, inputs, tail);
  Status status = outputs.status();
  for (size_t i = 0; status.ok() && i < node.outputs.size(); ++i) {
    if (step.wanted[i] && !(*outputs)[i].defined()) status = BugError("output {} was not made", i);
  }
  if (status.ok()) return outputs;
  return WithContext(status, fmt::format("node {} ({}; inputs {})", graph_.NodeLabel(step.node), node.op_type,
                                         DescribeInputs(inputs)));
}

const Tensor* SessionImpl::Find(ValueId v) const {
  if (auto it = schedule_.constants.find(v); it != schedule_.constants.end()) return &it->second;
  auto it = live_.find(v);
  return it == live_.end() ? nullptr : &it->second;
}

std::vector<const Tensor*> SessionImpl::InputsOf(const Node& node) const {
  std::vector<const Tensor*> inputs;
  for (ValueId v : node.inputs) inputs.push_back(v == kNoValue ? nullptr : Find(v));
  return inputs;
}

// As many of the steps that follow `head` as can be done to its output of these dims, as one tail. A value that the
// probe sees ends the chain.
Tail SessionImpl::ComposeTails(const std::vector<Step>& steps, const Step& head, const Dims& dims,
                               size_t& taken) const {
  std::vector<Tail> parts;
  ValueId made = graph_.node(head.node).outputs[0];
  for (size_t next : head.tails) {
    if (Seen(made)) break;
    const Step& step = steps[next];
    const Node& node = graph_.node(step.node);
    const std::vector<const Tensor*> inputs = InputsOf(node);
    const auto through = std::find(node.inputs.begin(), node.inputs.end(), made) - node.inputs.begin();
    const bool ready =
        std::equal(node.inputs.begin(), node.inputs.end(), inputs.begin(),
                   [&](ValueId v, const Tensor* t) { return v == kNoValue || v == made || t != nullptr; });
    if (!ready) break;
    const KernelCall call = {.attributes = node.attributes, .version = step.version, .inputs = inputs, .wanted = {}};
    Tail part = step.op->as_tail(call, static_cast<int>(through), dims);
    if (!part) break;
    parts.push_back(std::move(part));
    made = node.outputs[0];
  }
  taken = parts.size();
  if (parts.size() <= 1) return parts.empty() ? Tail() : std::move(parts[0]);
  return [parts = std::move(parts)](float* data, int64_t begin, int64_t count) {
    for (const Tail& part : parts) part(data, begin, count);
  };
}

Status SessionImpl::RunStep(std::vector<Step>& steps, Step& step, std::vector<bool>& done) {
  const Node& node = graph_.node(step.node);
  std::vector<const Tensor*> inputs = InputsOf(node);
  // A body's run may move what the map holds: control flow gets tensors of its own, which share their bytes.
  std::vector<Tensor> held;
  if (RunsBodies(*step.op)) {
    held.reserve(inputs.size());
    for (const Tensor*& input : inputs) {
      if (input != nullptr) input = &held.emplace_back(*input);
    }
  }
  size_t taken = 0;
  const TailMaker tail = [&](const Dims& dims) { return ComposeTails(steps, step, dims, taken); };
  const double before = std::exchange(inner_seconds_, 0);
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(std::vector<Tensor> outputs, Evaluate(step, inputs, step.tails.empty() ? nullptr : &tail));
  std::vector<NodeId> ran = {step.node};
  for (size_t t = 0; t < taken; ++t) {
    done[step.tails[t]] = true;
    ran.push_back(steps[step.tails[t]].node);
  }
  const double seconds = SecondsSince(begin);
  if (hooks_->timed) hooks_->timed(ran, seconds - inner_seconds_);
  inner_seconds_ = before + seconds;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId v = i == 0 ? graph_.node(ran.back()).outputs[0] : node.outputs[i];
    if (v == kNoValue) continue;
    if (Seen(v)) {
      const auto probed = std::chrono::steady_clock::now();
      RETURN_IF_ERROR(hooks_->probe(graph_.value(v).name, outputs[i]));
      inner_seconds_ += SecondsSince(probed);
    }
    live_[v] = std::move(outputs[i]);
  }
  return OkStatus();
}

Status SessionImpl::RunRegion(RegionId region) {
  std::vector<Step>& steps = schedule_.regions.at(region);
  std::vector<bool> done(steps.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!done[s]) RETURN_IF_ERROR(RunStep(steps, steps[s], done));
    for (ValueId v : steps[s].last_reads) live_.erase(v);
  }
  return OkStatus();
}

StatusOr<std::vector<Tensor>> SessionImpl::RunBody(RegionId body, std::vector<Tensor> inputs) {
  if (++body_runs_ > options_.max_body_runs) {
    return DataError("bodies are run more than {} times, which --max-body-runs sets", options_.max_body_runs);
  }
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

void SessionImpl::ChooseSeen(const RunHooks& hooks) {
  hooks_ = &hooks;
  seen_.clear();
  if (!hooks.probe) return;
  for (ValueId v = 0; v < graph_.value_count(); ++v) {
    seen_.push_back(!hooks.chosen || hooks.chosen(graph_.value(v).name));
  }
}

StatusOr<NamedTensors> SessionImpl::RunChecked(const NamedTensors& feeds, const RunHooks& hooks) {
  RETURN_IF_ERROR(CheckFeeds(graph_, inputs_, feeds));
  live_.clear();
  body_runs_ = 0;
  inner_seconds_ = 0;
  ChooseSeen(hooks);
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
    if (FindKernel(node.domain, node.op_type, model.OpsetOf(node.domain)) != nullptr) continue;
    missing.insert(fmt::format("{} ({} {})", node.op_type, node.domain.empty() ? "ai.onnx" : node.domain,
                               model.OpsetOf(node.domain)));
  }
  return {missing.begin(), missing.end()};
}

}  // namespace quant
