// A bias goes into the Gaussian error linear unit behind it, on targets that have such operators of com.microsoft.
//
//   x ─ Add(bias) ─ Gelu ─ y                    =>        x ─ BiasGelu(bias) ─ y
//   x ─ Add(bias) ─ Gelu by tanh, FastGelu ─ y  =>        x ─ FastGelu(bias) ─ y
//
// The bias is a constant vector along x's last axis, and nothing else reads the sum.
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

// BiasGelu or FastGelu; empty when the node is neither's match.
std::string_view BiasedForm(const Node& node) {
  if (HasReferences(node) || node.inputs.empty() || InputOf(node, 1) != kNoValue) return "";
  if (IsOp(node, "com.microsoft", "Gelu")) return "BiasGelu";
  if (IsOp(node, "com.microsoft", "FastGelu")) return "FastGelu";
  if (!IsOp(node, "Gelu")) return "";
  return node.attributes.String("approximate", "none") == "tanh" ? "FastGelu" : "BiasGelu";
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const std::string_view form = BiasedForm(node);
  if (form.empty()) return std::nullopt;
  const Node* add = MadeBy(graph, node.inputs[0], "Add");
  if (add == nullptr || add->region != node.region) return std::nullopt;
  const auto split = SplitConstant(graph, *add);
  if (!split) return std::nullopt;
  const auto [x, bias] = *split;
  if (!context.MayMake("com.microsoft", form)) return context.Miss("the target has no com.microsoft {}", form);
  const auto rank = RankOf(graph, x);
  const DType dtype = graph.value(x).dtype;
  if (dtype != DType::kFloat && dtype != DType::kFloat16) return context.Miss("{} is not handled", NameOf(dtype));
  const Dims& dims = graph.value(bias).constant->dims();
  if (!rank || *rank < 1 || dims.size() != 1 || graph.value(x).shape->back().value != dims[0]) {
    return context.Miss("what is added is no vector along the last axis");
  }
  if (!HasOneReader(graph, node.inputs[0])) return context.Miss("the sum has another reader");
  GraphEdit edit(root);
  edit.ReplaceNode(root, NewNodeOf("com.microsoft", form, {ValueRef::Of(x), ValueRef::Of(bias)}));
  return edit;
}

}  // namespace

const Pass& FuseBiasGeluPass() {
  static const Pass pass = {.name = "fuse-bias-gelu",
                            .summary = "A bias goes into the Gelu behind it, as com.microsoft BiasGelu or FastGelu",
                            .roots = {"Gelu", "FastGelu"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
