// LayerNormalization as exporters spell it out becomes the operator (decomposed_norm.h has the forms).
//
//   x ─┬─ ReduceMean ─ Sub ─┬─ Pow(2) ─ ReduceMean ─ Add(eps) ─ Sqrt ─┐
//      └────────────────────┘└───────────────────────────────────── Div ─ Mul(gamma) ─ Add(beta) ─ y
//   =>
//   x ─ LayerNormalization(gamma, beta) ─ y
//
// Both means are over the same last axes, whose lengths are known, and keep their rank; gamma and beta have a number
// for each element of those axes, or stay behind the operator. Nothing else reads what lies between. float32 and
// float16.
#include "passes/fusion/norm_site.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const auto norm = MatchDecomposedNorm(context.graph(), root);
  if (!norm || norm->means.empty()) return std::nullopt;
  if (!context.MayMake("", "LayerNormalization")) {
    return context.Miss("LayerNormalization needs opset 17 and a target that has it");
  }
  const auto site = FindNormSite(context, *norm);
  if (!site) return std::nullopt;
  GraphEdit edit(site->last);
  auto node = NewNodeOf("", "LayerNormalization", {ValueRef::Of(site->x), site->scale.In(edit, "scale")});
  if (site->shift.given()) node.inputs.push_back(site->shift.In(edit, "shift"));
  node.attributes.Set("axis", -site->axes);
  node.attributes.Set("epsilon", site->epsilon);
  edit.ReplaceNode(site->last, std::move(node));
  return edit;
}

}  // namespace

const Pass& FuseLayerNormPass() {
  static const Pass pass = {.name = "fuse-layer-norm",
                            .summary =
                                "Means, differences and roots that normalise the last axes become one "
                                "LayerNormalization",
                            .roots = {"Div", "Mul", "Add"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
