// An If whose condition is constant becomes the branch that it takes.
//
//   x ─┬─ If(true) { then: Relu(x) ─ a } { else: ... } ─ y        =>        x ─ Relu ─ y
//
// The branch's nodes and weights move to where the If was; the other branch goes. Names stay, except where another
// value has the same one. Kept when the branch holds sparse weights.
#include <algorithm>
#include <unordered_map>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

// The branch taken; -1 when that is not known.
RegionId BranchOf(const Graph& graph, const Node& node) {
  if (!IsOp(node, "If")) return -1;
  const Tensor* condition = ConstantOf(graph, InputOf(node, 0));
  if (condition == nullptr || condition->dtype() != DType::kBool || condition->size() != 1) return -1;
  const auto owned = condition->Materialize();
  if (!owned.ok()) return -1;
  const Attribute* branch = node.attributes.Find(owned->data<bool>()[0] ? "then_branch" : "else_branch");
  const auto* body = branch == nullptr ? nullptr : std::get_if<BodyRef>(&branch->value);
  return body == nullptr ? -1 : body->region;
}

bool MayMove(const Graph& graph, const Node& node, RegionId body) {
  const Region& region = graph.region(body);
  return region.inputs.empty() && region.outputs.size() >= node.outputs.size() &&
         std::all_of(region.initializers.begin(), region.initializers.end(),
                     [&](ValueId v) { return graph.value(v).constant.has_value(); });
}

void MoveConstants(Graph& graph, RegionId from, RegionId to) {
  const std::vector<ValueId> constants = std::exchange(graph.region(from).initializers, {});
  for (ValueId v : constants) {
    if (graph.is_function) {  // whose constants are nodes
      const ValueId made = graph.AddConstant(graph.value(v).name, *graph.value(v).constant, to);
      graph.ReplaceUses(v, made);
      graph.value(v).removed = true;
      continue;
    }
    graph.value(v).region = to;
    graph.region(to).initializers.push_back(v);
  }
}

void MoveNodes(Graph& graph, RegionId from, RegionId to, NodeId before) {
  const std::vector<NodeId> nodes = std::exchange(graph.region(from).nodes, {});
  for (NodeId n : nodes) {
    Node& node = graph.node(n);
    node.region = to;
    for (ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      for (Use& use : graph.value(v).uses) {
        if (use.node == n) use.region = to;
      }
    }
    for (ValueId v : node.outputs) {
      if (v != kNoValue) graph.value(v).region = to;
    }
    for (RegionId body : BodiesOf(node)) graph.region(body).parent = to;
  }
  auto& order = graph.region(to).nodes;
  order.insert(std::find(order.begin(), order.end(), before), nodes.begin(), nodes.end());
}

// The branch's results, which are then no region's outputs any more.
std::vector<ValueId> TakeOutputs(Graph& graph, RegionId body) {
  std::vector<ValueId> out = std::exchange(graph.region(body).outputs, {});
  for (ValueId v : out) {
    if (v == kNoValue) continue;
    std::erase_if(graph.value(v).uses, [&](const Use& u) { return u.node == kNoNode && u.region == body; });
  }
  return out;
}

// Readers of y read x, by an Identity where an output's name can't go to x itself.
void Rewire(Graph& graph, NodeId node, ValueId y, ValueId x) {
  const bool named = IsRegionOutput(graph, y);
  if (!MayReplace(graph, y, x)) {
    const Value& old = graph.value(y);
    Value copy;
    copy.name = graph.FreshName(old.name);
    copy.dtype = old.dtype;
    copy.shape = old.shape;
    copy.region = old.region;
    const ValueId made = graph.AddValue(std::move(copy));
    Node identity;
    identity.name = graph.FreshName(graph.value(made).name + "_identity");
    identity.op_type = "Identity";
    identity.inputs = {x};
    identity.outputs = {made};
    identity.region = graph.node(node).region;
    graph.MoveBefore(graph.AddNode(std::move(identity)), node);
    x = made;
  }
  graph.ReplaceUses(y, x);
  if (!named) return;
  std::swap(graph.value(y).name, graph.value(x).name);
  std::swap(graph.value(y).info_extra, graph.value(x).info_extra);
  std::swap(graph.value(y).has_info, graph.value(x).has_info);
}

// Two branches may use one name, each for itself; one scope can't.
void RenameTwins(Graph& graph, const std::vector<ValueId>& moved) {
  std::unordered_map<std::string, int> holders;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (!graph.value(v).removed) ++holders[graph.value(v).name];
  }
  for (ValueId v : moved) {
    const auto& uses = graph.value(v).uses;
    const bool fixed = std::any_of(uses.begin(), uses.end(),
                                   [](const Use& u) { return u.node == kNoNode && u.region == kMainRegion; });
    if (graph.value(v).removed || fixed) continue;
    int& count = holders[graph.value(v).name];
    if (count < 2) continue;
    --count;
    graph.value(v).name = graph.FreshName(graph.value(v).name);
  }
}

void TakeBranch(Graph& graph, NodeId node, RegionId body) {
  const RegionId region = graph.node(node).region;
  std::vector<ValueId> moved = graph.region(body).initializers;
  for (NodeId n : graph.region(body).nodes) {
    for (ValueId v : graph.node(n).outputs) {
      if (v != kNoValue) moved.push_back(v);
    }
  }
  MoveConstants(graph, body, region);
  MoveNodes(graph, body, region, node);
  const std::vector<ValueId> results = TakeOutputs(graph, body);
  const std::vector<ValueId> outputs = graph.node(node).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != kNoValue) Rewire(graph, node, outputs[i], results[i]);
  }
  graph.RemoveNode(node);
  RenameTwins(graph, moved);
}

StatusOr<int> Run(const PassContext& /*context*/, Graph& graph) {
  int changes = 0;
  // Nodes come before those of their bodies, which stay in the list when they move.
  for (NodeId n : graph.AllNodes()) {
    if (graph.node(n).removed) continue;
    const RegionId body = BranchOf(graph, graph.node(n));
    if (body < 0 || !MayMove(graph, graph.node(n), body)) continue;
    TakeBranch(graph, n, body);
    ++changes;
  }
  return changes;
}

}  // namespace

const Pass& FoldIfPass() {
  static const Pass pass = {
      .name = "fold-if", .summary = "An If whose condition is constant becomes the branch it takes", .run = Run};
  return pass;
}

}  // namespace quant
