#include "passes/quant/weight_inventory.h"

#include <algorithm>

namespace quant {
namespace {

// Readers of `value`, with an Identity standing for its own readers. Depth is bounded: graphs are acyclic.
void CollectReaders(const Graph& graph, ValueId value, WeightSite& site) {
  for (const Use& use : graph.value(value).uses) {
    if (use.node == kNoNode) {
      site.is_output = true;
      continue;
    }
    const Node& node = graph.node(use.node);
    if (node.op_type == "Identity" && node.domain.empty() && node.outputs.size() == 1 && node.outputs[0] != kNoValue) {
      CollectReaders(graph, node.outputs[0], site);
    } else {
      site.readers.push_back({use.node, use.index});
    }
  }
}

}  // namespace

WeightInventory FindWeights(const Graph& graph) {
  const std::vector<NodeId> order = graph.AllNodes();
  std::vector<int32_t> position(static_cast<size_t>(graph.node_count()), 0);
  for (size_t i = 0; i < order.size(); ++i) position[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);

  WeightInventory out;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || !value.constant || !InfoOf(value.constant->dtype()).is_float) continue;
    WeightSite site;
    site.value = v;
    CollectReaders(graph, v, site);
    if (site.readers.empty()) continue;
    if (value.constant->rank() < 2) {
      ++out.small_constants;
      out.small_elements += value.constant->size();
      continue;
    }
    std::stable_sort(site.readers.begin(), site.readers.end(), [&](const WeightReader& a, const WeightReader& b) {
      return position[static_cast<size_t>(a.node)] < position[static_cast<size_t>(b.node)];
    });
    out.weights.push_back(std::move(site));
  }
  std::stable_sort(out.weights.begin(), out.weights.end(), [&](const WeightSite& a, const WeightSite& b) {
    return position[static_cast<size_t>(a.readers[0].node)] < position[static_cast<size_t>(b.readers[0].node)];
  });
  return out;
}

}  // namespace quant
