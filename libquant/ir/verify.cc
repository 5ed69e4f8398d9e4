#include <algorithm>
#include <set>

#include "libquant/ir/graph.h"

namespace quant {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph),
        defined_(static_cast<size_t>(graph.value_count()), false),
        seen_uses_(static_cast<size_t>(graph.value_count()), 0) {}

  Status Run() {
    RETURN_IF_ERROR(Walk(kMainRegion));
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(v);
      if (value.removed && !value.uses.empty()) return BugError("{} was removed but is still read", value.name);
      if (value.uses.size() != seen_uses_[static_cast<size_t>(v)]) {
        return BugError("{} lists {} uses, the graph has {}", value.name, value.uses.size(),
                        seen_uses_[static_cast<size_t>(v)]);
      }
    }
    return OkStatus();
  }

 private:
  Status Define(ValueId v, RegionId region) {
    if (v < 0 || v >= graph_.value_count()) return BugError("region {} holds a value id {} out of range", region, v);
    const Value& value = graph_.value(v);
    if (value.removed) return BugError("{} was removed but is still defined", value.name);
    if (value.region != region) return BugError("{} is defined in region {}, not its own", value.name, region);
    if (defined_[static_cast<size_t>(v)]) {
      if (value.is_input && value.is_initializer) return OkStatus();  // listed twice on purpose
      return BugError("{} is defined twice", value.name);
    }
    defined_[static_cast<size_t>(v)] = true;
    if (!names_.insert({region, value.name}).second) return BugError("two values of a scope are named {}", value.name);
    return OkStatus();
  }

  Status Read(ValueId v, Use use) {
    if (v == kNoValue) return OkStatus();
    if (v < 0 || v >= graph_.value_count()) return BugError("a reader holds a value id {} out of range", v);
    const Value& value = graph_.value(v);
    if (!defined_[static_cast<size_t>(v)]) return BugError("{} is read before or outside its definition", value.name);
    if (std::find(value.uses.begin(), value.uses.end(), use) == value.uses.end()) {
      return BugError("{} does not list one of its readers", value.name);
    }
    ++seen_uses_[static_cast<size_t>(v)];
    return OkStatus();
  }

  Status WalkNode(NodeId id, RegionId region_id, std::vector<ValueId>& local) {
    const Node& node = graph_.node(id);
    if (node.removed || node.region != region_id) return BugError("node {} is in the wrong list", graph_.NodeLabel(id));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      RETURN_IF_ERROR(Read(node.inputs[i], {id, static_cast<int32_t>(i), region_id}));
    }
    for (RegionId body : BodiesOf(node)) {
      const Region& inner = graph_.region(body);
      if (inner.owner != id || inner.parent != region_id)
        return BugError("a body of {} is not its own", graph_.NodeLabel(id));
      RETURN_IF_ERROR(Walk(body));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (v == kNoValue) continue;
      RETURN_IF_ERROR(Define(v, region_id));
      if (graph_.value(v).producer != id || graph_.value(v).output_index != static_cast<int32_t>(i)) {
        return BugError("{} names another producer than {}", graph_.value(v).name, graph_.NodeLabel(id));
      }
      local.push_back(v);
    }
    return OkStatus();
  }

  Status Walk(RegionId id) {
    const Region& region = graph_.region(id);
    std::vector<ValueId> local;
    for (const auto* list : {&region.inputs, &region.initializers}) {
      for (ValueId v : *list) {
        RETURN_IF_ERROR(Define(v, id));
        local.push_back(v);
      }
    }
    for (NodeId n : region.nodes) RETURN_IF_ERROR(WalkNode(n, id, local));
    for (size_t i = 0; i < region.outputs.size(); ++i) {
      RETURN_IF_ERROR(Read(region.outputs[i], {kNoNode, static_cast<int32_t>(i), id}));
    }
    for (ValueId v : local) defined_[static_cast<size_t>(v)] = false;  // out of scope for what follows
    return OkStatus();
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<size_t> seen_uses_;
  std::set<std::pair<RegionId, std::string>> names_;
};

}  // namespace

Status Verify(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace quant
