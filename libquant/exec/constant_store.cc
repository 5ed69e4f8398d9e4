#include "libquant/exec/constant_store.h"

namespace quant {

ConstantStore::ConstantStore(const Graph& graph) : graph_(graph) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || !value.constant) continue;
    if (const Deferred* deferred = value.constant->deferred()) siblings_[deferred->producer.get()].push_back(v);
  }
}

bool ConstantStore::Has(ValueId v) const { return made_.contains(v) || graph_.value(v).constant.has_value(); }

StatusOr<Tensor> ConstantStore::Get(ValueId v) {
  if (auto it = made_.find(v); it != made_.end()) return it->second;
  const auto& constant = graph_.value(v).constant;
  if (!constant) return BugError("{} is no constant", graph_.value(v).name);
  if (const Deferred* deferred = constant->deferred()) {
    RETURN_IF_ERROR(Produce(deferred->producer.get()));
    return made_.at(v);
  }
  ASSIGN_OR_RETURN(Tensor tensor, constant->Materialize());
  if (!constant->is_owned()) made_[v] = tensor;
  return tensor;
}

Status ConstantStore::Produce(const TensorProducer* producer) {
  struct Discard : ByteSink {
    Status Write(int64_t, std::span<const std::byte>) override { return OkStatus(); }
  } discard;
  std::vector<ByteSink*> sinks(static_cast<size_t>(producer->output_count()), &discard);
  std::map<int, Tensor> outputs;
  std::map<int, MemorySink> memory;
  for (ValueId v : siblings_[producer]) {
    const Tensor& constant = *graph_.value(v).constant;
    const int i = constant.deferred()->output;
    if (outputs.contains(i)) continue;
    outputs[i] = Tensor::Allocate(constant.dtype(), constant.dims());
    sinks[static_cast<size_t>(i)] = &memory.try_emplace(i, outputs[i].mutable_bytes()).first->second;
  }
  RETURN_IF_ERROR(producer->Produce(sinks));
  for (ValueId v : siblings_[producer]) {
    const Tensor& constant = *graph_.value(v).constant;
    made_[v] = outputs[constant.deferred()->output].Reshaped(constant.dims());
  }
  return OkStatus();
}

}  // namespace quant
