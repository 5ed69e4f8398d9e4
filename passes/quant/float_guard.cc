#include "passes/quant/float_guard.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "passes/decomposed_norm.h"
#include "passes/decomposed_softmax.h"

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
      if (type == "Div" || type == "Mul" || type == "Add") MatchLayerNorm(n);
      if (type == "Div" || type == "Mul") MatchSoftmax(n);
    }
    return std::move(found_);
  }

 private:
  void MatchLayerNorm(NodeId root) {
    auto norm = MatchDecomposedNorm(graph_, root);
    if (!norm) return;
    AddScaleAndShift(root, norm->parts);
    Guard(norm->parts, "decomposed LayerNormalization");
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
    auto softmax = MatchDecomposedSoftmax(graph_, root);
    if (!softmax) return;
    if (softmax->max != kNoNode) softmax->parts.insert(softmax->parts.end(), {softmax->difference, softmax->max});
    Guard(softmax->parts, "decomposed Softmax");
  }

  void Guard(const std::vector<NodeId>& parts, const std::string& what) {
    for (NodeId n : parts) found_.emplace(n, what);
  }

  const Graph& graph_;
  FloatGuard found_;
};

}  // namespace

FloatGuard FindGuardedNodes(const Graph& graph) { return Matcher(graph).Run(); }

}  // namespace quant
