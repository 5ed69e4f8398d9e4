// An If whose condition is known becomes the body that it chooses.
//
//   c = true   y = If(c) <then: t = Relu(x)   else: e = Neg(x)>        =>        y = Relu(x)
//
// The condition is a constant, or that of an If around it. The body's nodes, initializers and bodies move to where the
// If was; names that are taken elsewhere get a number. What the body hands out takes over the If's outputs; where that
// would leave an output of a graph without its name (a captured value, a constant, one value for two outputs), an
// Identity does.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

class Inliner {
 public:
  explicit Inliner(Graph& graph) : graph_(graph) {}

  int Run() {
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      if (!graph_.value(v).removed) ++names_[graph_.value(v).name];
    }
    for (bool again = true; again;) {
      again = false;
      for (NodeId n : graph_.AllNodes()) {
        if (graph_.node(n).removed || !Inline(n)) continue;
        again = true;
        ++changes_;
      }
    }
    return changes_;
  }

 private:
  bool Inline(NodeId id) {
    if (!IsOp(graph_.node(id), "If")) return false;
    const std::optional<bool> condition = ConditionOf(id);
    if (!condition) return false;
    const Attribute* branch = graph_.node(id).attributes.Find(*condition ? "then_branch" : "else_branch");
    const auto* body = branch == nullptr ? nullptr : std::get_if<BodyRef>(&branch->value);
    if (body == nullptr || graph_.region(body->region).outputs.size() < graph_.node(id).outputs.size()) return false;
    const RegionId from = body->region;
    for (RegionId other : BodiesOf(graph_.node(id))) {
      if (other != from) ForgetNames(other);
    }
    const std::vector<ValueId> results = graph_.region(from).outputs;
    for (size_t i = 0; i < results.size(); ++i) graph_.SetOutput(from, static_cast<int32_t>(i), kNoValue);
    MoveConstants(from, graph_.node(id).region);
    MoveNodes(from, id);
    for (size_t i = 0; i < graph_.node(id).outputs.size(); ++i) HandOut(id, i, results[i]);
    graph_.RemoveNode(id);
    return true;
  }

  // The constant's, or that of the branch the node is in when an If around it has the same condition.
  std::optional<bool> ConditionOf(NodeId id) const {
    const ValueId condition = InputOf(graph_.node(id), 0);
    if (const auto known = BoolOf(graph_, condition)) return known;
    for (RegionId r = graph_.node(id).region; r != kMainRegion; r = graph_.region(r).parent) {
      const Node& around = graph_.node(graph_.region(r).owner);
      if (!IsOp(around, "If") || InputOf(around, 0) != condition) continue;
      const Attribute* branch = around.attributes.Find("then_branch");
      const auto* body = branch == nullptr ? nullptr : std::get_if<BodyRef>(&branch->value);
      if (body != nullptr) return body->region == r;
    }
    return std::nullopt;
  }

  // The body that is not chosen goes, and what it defines.
  void ForgetNames(RegionId region) {
    const auto forget = [&](ValueId v) {
      if (v != kNoValue) --names_[graph_.value(v).name];
    };
    for (ValueId v : graph_.region(region).initializers) forget(v);
    for (NodeId n : graph_.region(region).nodes) {
      for (ValueId v : graph_.node(n).outputs) forget(v);
      for (RegionId body : BodiesOf(graph_.node(n))) ForgetNames(body);
    }
  }

  void MoveValue(ValueId v, RegionId to) {
    Value& value = graph_.value(v);
    value.region = to;
    int& count = names_[value.name];
    if (count < 2) return;
    --count;
    value.name = graph_.FreshName(value.name);
    names_[value.name] = 1;
  }

  // A function keeps its constants in Constant nodes.
  void MoveConstants(RegionId from, RegionId to) {
    for (ValueId v : std::exchange(graph_.region(from).initializers, {})) {
      if (graph_.is_function && to == kMainRegion) {
        const Value& value = graph_.value(v);
        graph_.ReplaceUses(v, graph_.AddConstant(value.name, *value.constant, to));
        graph_.value(v).removed = true;
        continue;
      }
      MoveValue(v, to);
      graph_.region(to).initializers.push_back(v);
    }
  }

  void MoveNodes(RegionId from, NodeId before) {
    const RegionId to = graph_.node(before).region;
    const std::vector<NodeId> moved = std::exchange(graph_.region(from).nodes, {});
    for (NodeId n : moved) {
      Node& node = graph_.node(n);
      node.region = to;
      for (ValueId v : node.outputs) {
        if (v != kNoValue) MoveValue(v, to);
      }
      for (ValueId v : node.inputs) {
        if (v == kNoValue) continue;
        for (Use& use : graph_.value(v).uses) {
          if (use.node == n) use.region = to;
        }
      }
      for (RegionId body : BodiesOf(node)) graph_.region(body).parent = to;
    }
    auto& order = graph_.region(to).nodes;
    order.insert(std::find(order.begin(), order.end(), before), moved.begin(), moved.end());
  }

  // Output i of the If is `result` from now on.
  void HandOut(NodeId id, size_t i, ValueId result) {
    const ValueId output = graph_.node(id).outputs[i];
    if (output == kNoValue) return;
    if (MayReplace(graph_, output, result)) {
      const bool names_output = IsRegionOutput(graph_, output);
      graph_.ReplaceUses(output, result);
      if (!names_output) return;
      std::swap(graph_.value(output).name, graph_.value(result).name);
      std::swap(graph_.value(output).info_extra, graph_.value(result).info_extra);
      std::swap(graph_.value(output).has_info, graph_.value(result).has_info);
      return;
    }
    Node identity;
    identity.op_type = "Identity";
    identity.name = graph_.FreshName(graph_.value(output).name + "/identity");
    identity.region = graph_.node(id).region;
    identity.inputs = {result};
    identity.outputs = {output};
    graph_.node(id).outputs[i] = kNoValue;
    graph_.MoveBefore(graph_.AddNode(std::move(identity)), id);
  }

  Graph& graph_;
  std::unordered_map<std::string, int> names_;  // live values of each name, bodies included
  int changes_ = 0;
};

StatusOr<int> Run(const PassContext& /*context*/, Graph& graph) { return Inliner(graph).Run(); }

}  // namespace

const Pass& InlineIfPass() {
  static const Pass pass = {
      .name = "inline-if", .summary = "An If whose condition is known becomes the body it chooses", .run = Run};
  return pass;
}

}  // namespace quant
