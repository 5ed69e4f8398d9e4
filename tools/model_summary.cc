#include "tools/model_summary.h"

#include <algorithm>
#include <map>

#include "libquant/base/checked.h"
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

// Bytes of a value with unknown dimensions taken as 1; -1 when its rank or type is unknown.
int64_t BytesOf(const Value& value) {
  if (!value.shape || InfoOf(value.dtype).bits == 0) return -1;
  Dims dims;
  for (const Dim& d : *value.shape) dims.push_back(d.known() ? d.value : 1);
  return BytesFor(value.dtype, dims).value_or(-1);
}

// Adds the names of its unknown dimensions, each once.
void NameDynamicDims(const Value& value, std::vector<std::string>& names) {
  for (const Dim& d : value.shape.value_or(Shape{})) {
    const std::string name = d.symbol.empty() ? "?" : d.symbol;
    if (!d.known() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

// The node of the main graph in which this use happens.
NodeId MainNodeOf(const Graph& graph, const Use& use) {
  NodeId node = use.node;
  for (RegionId r = use.region; r != kMainRegion && r >= 0; r = graph.region(r).parent) node = graph.region(r).owner;
  return node;
}

void EstimateActivations(const Graph& graph, ModelSummary& out) {
  const std::vector<NodeId>& order = graph.main().nodes;
  std::map<NodeId, int64_t> step;
  for (size_t i = 0; i < order.size(); ++i) step[order[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> change(order.size() + 2, 0);
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || value.constant || value.region != kMainRegion || value.uses.empty()) continue;
    const int64_t bytes = BytesOf(value);
    if (value.is_input) NameDynamicDims(value, out.dynamic_dims);
    if (bytes < 0) {
      ++out.unknown_values;
      continue;
    }
    const int64_t first = value.producer == kNoNode ? 0 : step[value.producer];
    int64_t last = first;
    for (const Use& use : value.uses) {
      const NodeId node = MainNodeOf(graph, use);
      last = node == kNoNode ? static_cast<int64_t>(order.size()) : std::max(last, step[node]);
      if (node == kNoNode) break;
    }
    change[static_cast<size_t>(first)] += bytes;
    change[static_cast<size_t>(last) + 1] -= bytes;
  }
  int64_t alive = 0;
  for (int64_t c : change) {
    alive += c;
    out.activation_bytes = std::max(out.activation_bytes, alive);
  }
}

}  // namespace

ModelSummary Summarize(const Model& model) {
  ModelSummary out;
  CountOperators(model, out);
  CountBodies(model.graph, out);
  CountWeights(model.graph, out);
  EstimateActivations(model.graph, out);
  return out;
}

}  // namespace quant
