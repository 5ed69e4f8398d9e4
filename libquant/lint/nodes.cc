#include <algorithm>
#include <map>

#include "libquant/lint/rules.h"

namespace quant {
namespace {

void LintNames(const std::vector<PlacedNode>& nodes, std::vector<Finding>& out) {
  std::vector<std::string> unnamed, repeated;
  std::map<std::pair<const Graph*, std::string_view>, size_t> seen;
  size_t sharing = 0;
  size_t counted = 0;
  for (const PlacedNode& placed : nodes) {
    if (placed.node().op_type == "Constant") continue;  // weights, known by their own names
    ++counted;
    const std::string& name = placed.node().name;
    if (name.empty()) {
      unnamed.push_back(placed.graph->NodeLabel(placed.id));
    } else if (const size_t n = ++seen[{placed.graph, name}]; n >= 2) {
      if (n == 2) repeated.push_back(name);
      sharing += n == 2 ? 2 : 1;
    }
  }
  if (!unnamed.empty()) {
    out.push_back(Finding::Of(FindingId::kNodeUnnamed,
                              fmt::format("{} of {} without a name", unnamed.size(), Count(counted, "node")), unnamed));
  }
  if (!repeated.empty()) {
    out.push_back(Finding::Of(FindingId::kNodeRepeatedName,
                              fmt::format("{} nodes share {}", sharing, Count(repeated.size(), "name")), repeated));
  }
}

void LintBodies(const Graph& graph, std::vector<Finding>& out) {
  std::vector<std::string> owners;
  int deepest = 0;
  for (RegionId r = 1; r < graph.region_count(); ++r) {
    const Region& region = graph.region(r);
    if (region.removed || region.owner == kNoNode) continue;
    int depth = 0;
    for (RegionId at = r; at > 0; at = graph.region(at).parent) ++depth;
    deepest = std::max(deepest, depth);
    const Node& owner = graph.node(region.owner);
    std::string label = fmt::format("{} ({})", graph.NodeLabel(region.owner), owner.op_type);
    if (std::find(owners.begin(), owners.end(), label) == owners.end()) owners.push_back(std::move(label));
  }
  if (owners.empty()) return;
  out.push_back(Finding::Of(FindingId::kGraphNested,
                            fmt::format("{} with bodies, nested {} deep", Count(owners.size(), "node"), deepest),
                            owners));
}

}  // namespace

void LintNodes(const Model& model, std::vector<Finding>& out) {
  LintNames(NodesEverywhere(model), out);
  LintBodies(model.graph, out);
}

}  // namespace quant
