#include "passes/quant/float_guard.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace quant {
namespace {

constexpr std::array<std::string_view, 14> kFusedFloatOps = {"LayerNormalization",
                                                             "SimplifiedLayerNormalization",
                                                             "SkipLayerNormalization",
                                                             "SkipSimplifiedLayerNormalization",
                                                             "EmbedLayerNormalization",
                                                             "RMSNormalization",
                                                             "GroupNormalization",
                                                             "InstanceNormalization",
                                                             "MeanVarianceNormalization",
                                                             "LpNormalization",
                                                             "Softmax",
                                                             "LogSoftmax",
                                                             "Hardmax",
                                                             "BiasSoftmax"};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  FloatGuard Run() {
    for (NodeId n : graph_.AllNodes()) {
      const std::string& type = graph_.node(n).op_type;
      if (std::find(kFusedFloatOps.begin(), kFusedFloatOps.end(), type) != kFusedFloatOps.end()) Guard({n}, type);
      if (type == "Div" || type == "Mul") MatchLayerNorm(n);
      if (type == "Div") MatchSoftmax(n);
    }
    return std::move(found_);
  }

 private:
  // The producer of input i when it is of that type, looking through Cast and Identity; kNoNode otherwise.
  NodeId Producer(NodeId n, size_t i, std::string_view type) {
    if (n == kNoNode || i >= graph_.node(n).inputs.size()) return kNoNode;
    ValueId v = graph_.node(n).inputs[i];
    for (int steps = 0; v != kNoValue && steps < 8; ++steps) {
      const NodeId p = graph_.value(v).producer;
      if (p == kNoNode) return kNoNode;
      const Node& node = graph_.node(p);
      if (node.op_type == type) return p;
      if ((node.op_type != "Cast" && node.op_type != "Identity") || node.inputs.empty()) return kNoNode;
      passed_.push_back(p);
      v = node.inputs[0];
    }
    return kNoNode;
  }
  NodeId EitherProducer(NodeId n, std::string_view type) {
    const NodeId p = Producer(n, 0, type);
    return p != kNoNode ? p : Producer(n, 1, type);
  }

  // Div(centred, Sqrt(Add(ReduceMean(square), eps))), or Mul(centred, Reciprocal(Sqrt(...))); also without Sub, which
  // is RMS normalization.
  void MatchLayerNorm(NodeId root) {
    passed_.clear();
    std::vector<NodeId> parts{root};
    NodeId sqrt = Producer(root, 1, "Sqrt");
    if (graph_.node(root).op_type == "Mul") {
      NodeId inverse = EitherProducer(root, "Reciprocal");
      if (inverse == kNoNode) {
        inverse = EitherProducer(root, "Div");  // Div(1, Sqrt)
        if (inverse == kNoNode) return;
        sqrt = Producer(inverse, 1, "Sqrt");
      } else {
        sqrt = Producer(inverse, 0, "Sqrt");
      }
      parts.push_back(inverse);
    }
    if (sqrt == kNoNode) return;
    const NodeId add = Producer(sqrt, 0, "Add");
    const NodeId mean = add != kNoNode ? EitherProducer(add, "ReduceMean") : Producer(sqrt, 0, "ReduceMean");
    if (mean == kNoNode) return;
    NodeId square = Producer(mean, 0, "Pow");
    if (square == kNoNode) square = Producer(mean, 0, "Mul");
    if (square == kNoNode) return;
    parts.insert(parts.end(), {sqrt, mean, square});
    if (add != kNoNode) parts.push_back(add);
    // Exporters write the centring once or twice; guard both.
    for (NodeId reader : {square, root}) {
      const NodeId sub = EitherProducer(reader, "Sub");
      if (sub == kNoNode) continue;
      parts.push_back(sub);
      const NodeId first_mean = Producer(sub, 1, "ReduceMean");
      if (first_mean != kNoNode) parts.push_back(first_mean);
    }
    AddScaleAndShift(root, parts);
    parts.insert(parts.end(), passed_.begin(), passed_.end());
    Guard(parts, "decomposed LayerNormalization");
  }

  // Mul(root, gamma) and Add(that, beta): the readers of the normalized value whose other operand is a constant.
  void AddScaleAndShift(NodeId root, std::vector<NodeId>& parts) {
    NodeId last = root;
    for (const std::string_view type : {"Mul", "Add"}) {
      const ValueId v = graph_.node(last).outputs.empty() ? kNoValue : graph_.node(last).outputs[0];
      if (v == kNoValue) return;
      for (const Use& use : graph_.value(v).uses) {
        if (use.node == kNoNode || graph_.node(use.node).op_type != type) continue;
        const auto& inputs = graph_.node(use.node).inputs;
        if (std::any_of(inputs.begin(), inputs.end(),
                        [&](ValueId x) { return x != kNoValue && x != v && IsConstant(x); })) {
          parts.push_back(use.node);
          last = use.node;
          break;
        }
      }
    }
  }

  bool IsConstant(ValueId v) const {
    for (int steps = 0; steps < 8; ++steps) {
      const Value& value = graph_.value(v);
      if (value.constant) return true;
      if (value.producer == kNoNode) return false;
      const Node& p = graph_.node(value.producer);
      if ((p.op_type != "Identity" && p.op_type != "Cast") || p.inputs.empty()) return false;
      v = p.inputs[0];
    }
    return false;
  }

  void MatchSoftmax(NodeId root) {
    passed_.clear();
    const NodeId exp = Producer(root, 0, "Exp");
    const NodeId sum = Producer(root, 1, "ReduceSum");
    if (exp == kNoNode || sum == kNoNode || Producer(sum, 0, "Exp") != exp) return;
    std::vector<NodeId> parts{root, exp, sum};
    const NodeId sub = Producer(exp, 0, "Sub");
    const NodeId max = Producer(sub, 1, "ReduceMax");
    if (max != kNoNode) parts.insert(parts.end(), {sub, max});
    parts.insert(parts.end(), passed_.begin(), passed_.end());
    Guard(parts, "decomposed Softmax");
  }

  void Guard(const std::vector<NodeId>& parts, const std::string& what) {
    for (NodeId n : parts) found_.emplace(n, what);
  }

  const Graph& graph_;
  std::vector<NodeId> passed_;  // Casts and Identities looked through in the present match
  FloatGuard found_;
};

}  // namespace

FloatGuard FindGuardedNodes(const Graph& graph) { return Matcher(graph).Run(); }

}  // namespace quant
