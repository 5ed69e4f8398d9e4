#include "passes/quant/integer_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "libquant/numerics/format.h"
#include "libquant/ops/op_def.h"
#include "passes/match.h"
#include "passes/quant/float_guard.h"

namespace quant {
namespace {

using Kind = IntegerNode::Kind;

bool IsClamp(const Node& node) { return IsOp(node, "Relu") || IsOp(node, "Clip"); }

// A Resize that picks the nearest element.
bool PicksNearest(const Node& node) { return node.attributes.String("mode", "nearest") == "nearest"; }

class Planner {
 public:
  Planner(const Model& model, const QuantizePlan& weights, const QuantizeOptions& options)
      : graph_(model.graph), rules_(options.target.integer), options_(options), guard_(FindGuardedNodes(graph_)) {
    for (const WeightVerdict& v : weights.verdicts) {
      if (v.function >= 0) continue;
      for (const NodeId reader : v.readers) {
        if (v.kind == VerdictKind::kQuantized) {
          has_codes_.insert(reader);
        } else {
          why_float_[reader] = v.reason;
        }
      }
    }
  }

  IntegerPlan Run() {
    for (const NodeId id : graph_.main().nodes) Consider(id);
    do {
      FindWanted();
    } while (DropSome());
    return Collect();
  }

 private:
  const OpDef* OpOf(const Node& node) const { return FindOp(node.domain, node.op_type); }

  bool IsFloat(ValueId v) const { return v != kNoValue && graph_.value(v).dtype == DType::kFloat; }
  bool IsConstant(ValueId v) const { return ConstantOf(graph_, v) != nullptr; }

  void Consider(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef* op = node.domain.empty() ? OpOf(node) : nullptr;
    if (op == nullptr) return;
    if (const auto* role = std::get_if<Weighted>(&op->role)) return ConsiderWeighted(id, *role);
    if (guard_.contains(id) || absorbed_.contains(id) || std::holds_alternative<FloatOnly>(op->role)) return;
    const bool moves = rules_.Moves(node.op_type);
    if (!moves && !rules_.HasKernel(node.op_type)) return;
    ConsiderOther(id, moves ? Kind::kMoving : Kind::kRequantizing);
  }

  void ConsiderWeighted(NodeId id, const Weighted& role) {
    const Node& node = graph_.node(id);
    std::string reason;
    if (!rules_.HasKernel(node.op_type)) {
      reason = fmt::format("{} does not run {} in integers", options_.target.name, node.op_type);
    } else if (!has_codes_.contains(id)) {
      const auto why = why_float_.find(id);
      reason = why != why_float_.end() ? why->second : "it has no constant weight";
    } else if (!IsFloat(InputOf(node, static_cast<size_t>(role.activation))) || !IsFloat(OutputOf(node, 0))) {
      reason = "it does not compute in float32";
    } else if (IsConstant(node.inputs[static_cast<size_t>(role.activation)])) {
      reason = "its data is constant";
    } else if (node.op_type == "Gemm" &&
               (node.attributes.Float("alpha", 1) != 1 || node.attributes.Float("beta", 1) != 1 ||
                node.attributes.Int("transA", 0) != 0)) {
      reason = "Gemm with transA, alpha or beta";
    }
    if (!reason.empty()) {
      left_.push_back({id, std::move(reason)});
      return;
    }
    IntegerNode out;
    out.node = id;
    out.inputs = {role.activation};
    Add(std::move(out));
  }

  void ConsiderOther(NodeId id, Kind kind) {
    const Node& node = graph_.node(id);
    if (node.outputs.size() != 1 && !IsOp(node, "Split")) return;
    if (IsOp(node, "Resize") && !PicksNearest(node)) return;
    IntegerNode out;
    out.node = id;
    out.kind = kind;
    const bool all = (kind == Kind::kRequantizing && !IsClamp(node)) || IsOp(node, "Concat");  // bounds are no data
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!IsFloat(v)) {
        if (i == 0) return;  // it works on something else
        continue;
      }
      if (IsConstant(v)) {
        if (i == 0 && !all) return;
        if (all) out.constants.push_back(static_cast<int32_t>(i));
        continue;
      }
      if (i > 0 && !all) return;
      out.inputs.push_back(static_cast<int32_t>(i));
    }
    if (out.inputs.empty() || !IsFloat(OutputOf(node, 0))) return;
    Add(std::move(out));
  }

  void Add(IntegerNode node) {
    node.made = OutputOf(graph_.node(node.node), 0);
    if (node.kind != Kind::kMoving) {
      const NodeId behind = OnlyReader(graph_, node.made);
      if (behind != kNoNode && IsClamp(graph_.node(behind)) && graph_.node(behind).region == kMainRegion &&
          graph_.node(behind).inputs[0] == node.made && IsFloat(OutputOf(graph_.node(behind), 0))) {
        node.absorbed = behind;
        absorbed_.insert(behind);
        node.made = graph_.node(behind).outputs[0];
      }
    }
    order_.push_back(node.node);
    nodes_[node.node] = std::move(node);
  }

  // Every value the node makes: Split makes several.
  std::vector<ValueId> MadeBy(const IntegerNode& n) const {
    if (n.kind != Kind::kMoving) return {n.made};
    return graph_.node(n.node).outputs;
  }

  // The integer node that makes the value, or null.
  const IntegerNode* MakerOf(ValueId v) const {
    NodeId producer = ProducerOf(graph_, v);
    if (producer == kNoNode) return nullptr;
    auto found = nodes_.find(producer);
    if (found == nodes_.end()) {
      const Node& node = graph_.node(producer);
      if (!IsClamp(node)) return nullptr;
      found = nodes_.find(ProducerOf(graph_, node.inputs[0]));
      if (found == nodes_.end() || found->second.absorbed != producer) return nullptr;
    }
    return &found->second;
  }

  // An integer node of one of the kinds reads the value as codes.
  bool ReadAsCodes(ValueId v, bool by_weighted) const {
    for (const Use& use : graph_.value(v).uses) {
      const auto found = nodes_.find(use.node);
      if (found == nodes_.end() || (by_weighted && found->second.kind != Kind::kWeighted)) continue;
      const auto& inputs = found->second.inputs;
      if (std::find(inputs.begin(), inputs.end(), use.index) != inputs.end()) return true;
    }
    return false;
  }

  // Values that some product reads as codes, at once or through other integer nodes. What only integer nodes read that
  // end in float themselves is none: a detector's Concat of boxes and confidences behind its last Conv, say.
  void FindWanted() {
    wanted_.clear();
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const auto found = nodes_.find(*id);
      if (found == nodes_.end()) continue;
      const IntegerNode& n = found->second;
      if (n.kind != Kind::kWeighted && !MakesWanted(n)) continue;
      for (const int32_t i : n.inputs) wanted_.insert(graph_.node(n.node).inputs[static_cast<size_t>(i)]);
    }
  }
  bool MakesWanted(const IntegerNode& n) const {
    const std::vector<ValueId> made = MadeBy(n);
    return std::any_of(made.begin(), made.end(), [&](ValueId v) { return wanted_.contains(v); });
  }

  // The node may make codes or floats and nothing behind it multiplies.
  bool EndsInFloat(const IntegerNode& n) const {
    if (n.kind == Kind::kMoving || !rules_.MayEndInFloat(graph_.node(n.node).op_type)) return false;
    return !ReadAsCodes(n.made, n.kind == Kind::kWeighted);
  }

  // It exists as codes, whoever reads it.
  bool MadeAsCodes(ValueId v) const {
    const IntegerNode* maker = MakerOf(v);
    return maker != nullptr && !EndsInFloat(*maker);
  }
  // It is quantized for the sake of another node than one that only goes along.
  bool IsAnchored(ValueId v) const { return MadeAsCodes(v) || ReadAsCodes(v, true); }

  bool Stays(const IntegerNode& n) const {
    if (n.kind == Kind::kWeighted) return true;
    const Node& node = graph_.node(n.node);
    const auto input = [&](int32_t i) { return node.inputs[static_cast<size_t>(i)]; };
    if (!std::all_of(n.inputs.begin(), n.inputs.end(), [&](int32_t i) { return IsAnchored(input(i)); })) return false;
    if (n.kind == Kind::kMoving &&
        std::all_of(n.inputs.begin(), n.inputs.end(), [&](int32_t i) { return MadeAsCodes(input(i)); })) {
      return true;
    }
    return MakesWanted(n);
  }

  bool DropSome() {
    bool dropped = false;
    for (auto it = nodes_.begin(); it != nodes_.end();) {
      if (Stays(it->second)) {
        ++it;
        continue;
      }
      if (it->second.kind == Kind::kRequantizing) {
        left_.push_back({it->first, "what it reads or makes is float for other reasons"});
      }
      it = nodes_.erase(it);
      dropped = true;
    }
    return dropped;
  }

  IntegerPlan Collect() {
    IntegerPlan plan;
    std::set<ValueId> seen;
    const auto note = [&](ValueId v, bool as_codes) {
      if (v == kNoValue) return;
      if (seen.insert(v).second) plan.quantized.push_back(v);
      if (as_codes) plan.as_codes.push_back(v);
    };
    for (const NodeId id : order_) {
      const auto found = nodes_.find(id);
      if (found == nodes_.end()) continue;
      IntegerNode n = found->second;
      n.float_output = EndsInFloat(n);
      for (const int32_t i : n.inputs) note(graph_.node(id).inputs[static_cast<size_t>(i)], false);
      if (!n.float_output) {
        for (const ValueId v : MadeBy(n)) note(v, true);
      }
      plan.nodes.push_back(std::move(n));
    }
    std::map<NodeId, size_t> place;
    for (size_t i = 0; i < graph_.main().nodes.size(); ++i) place[graph_.main().nodes[i]] = i;
    std::sort(left_.begin(), left_.end(), [&](const auto& a, const auto& b) { return place[a.node] < place[b.node]; });
    plan.left = std::move(left_);
    return plan;
  }

  const Graph& graph_;
  const IntegerRules& rules_;
  const QuantizeOptions& options_;
  const FloatGuard guard_;
  std::set<NodeId> has_codes_;
  std::map<NodeId, std::string> why_float_;
  std::map<NodeId, IntegerNode> nodes_;
  std::vector<NodeId> order_;
  std::set<NodeId> absorbed_;
  std::set<ValueId> wanted_;
  std::vector<FloatNode> left_;
};

}  // namespace

StatusOr<IntegerPlan> PlanIntegers(const Model& model, const QuantizePlan& weights, const QuantizeOptions& options) {
  const IntegerRules& rules = options.target.integer;
  if (std::find(rules.activations.begin(), rules.activations.end(), options.activations) == rules.activations.end()) {
    return UsageError("{} takes activations as {}, not {}", options.target.name, fmt::join(rules.activations, ", "),
                      options.activations);
  }
  return Planner(model, weights, options).Run();
}

std::vector<RangeWanted> RangesWanted(const Model& model, const IntegerPlan& plan) {
  std::vector<RangeWanted> wanted;
  for (const ValueId v : plan.quantized) wanted.push_back({model.graph.value(v).name});
  return wanted;
}

}  // namespace quant
