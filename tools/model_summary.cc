#include "tools/model_summary.h"

#include <algorithm>
#include <map>

#include "libquant/exec/activation_memory.h"
#include "libquant/exec/session.h"

namespace quant {
namespace {

std::string DomainName(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

void CountOperators(const Model& model, ModelSummary& out) {
  const std::vector<std::string> lacking = OpsWithoutKernel(model);
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (NodeId n : model.graph.AllNodes()) {
    const Node& node = model.graph.node(n);
    ++counts[{DomainName(node.domain), node.op_type}];
    ++out.nodes;
  }
  for (const auto& [key, count] : counts) {
    const auto& [domain, type] = key;
    const std::string label = fmt::format("{} ({} ", type, domain);
    const bool lacks = std::any_of(lacking.begin(), lacking.end(),
                                   [&](const std::string& op) { return op.compare(0, label.size(), label) == 0; });
    out.operators.push_back({type, domain, count, !lacks});
  }
  std::stable_sort(out.operators.begin(), out.operators.end(),
                   [](const OperatorCount& a, const OperatorCount& b) { return a.count > b.count; });
}

void CountBodies(const Graph& graph, ModelSummary& out) {
  for (RegionId r = 1; r < graph.region_count(); ++r) {
    if (graph.region(r).removed) continue;
    ++out.bodies;
    int64_t depth = 0;
    for (RegionId at = r; at > 0; at = graph.region(at).parent) ++depth;
    out.body_depth = std::max(out.body_depth, depth);
  }
}

void CountWeights(const Graph& graph, ModelSummary& out) {
  std::map<DType, WeightBytes> by_dtype;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || !value.constant) continue;
    const Tensor& tensor = *value.constant;
    WeightBytes& row = by_dtype[tensor.dtype()];
    row.dtype = tensor.dtype();
    ++row.tensors;
    row.elements += tensor.size();
    row.bytes += tensor.byte_size();
    out.weight_bytes += tensor.byte_size();
    out.largest.push_back(v);
    out.initializers_as_inputs += value.is_input && value.region == kMainRegion;
  }
  for (const auto& entry : by_dtype) out.weights.push_back(entry.second);
  std::stable_sort(out.weights.begin(), out.weights.end(),
                   [](const WeightBytes& a, const WeightBytes& b) { return a.bytes > b.bytes; });
  std::stable_sort(out.largest.begin(), out.largest.end(), [&](ValueId a, ValueId b) {
    return graph.value(a).constant->byte_size() > graph.value(b).constant->byte_size();
  });
}

}  // namespace

ModelSummary Summarize(const Model& model) {
  ModelSummary out;
  CountOperators(model, out);
  CountBodies(model.graph, out);
  CountWeights(model.graph, out);
  ActivationMemory activations = PeakActivations(model);
  out.activation_bytes = activations.peak_bytes;
  out.dynamic_dims = std::move(activations.open_dims);
  out.unknown_values = activations.unknown_values;
  return out;
}

}  // namespace quant
