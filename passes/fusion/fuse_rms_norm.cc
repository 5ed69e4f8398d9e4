// RMS normalization as exporters spell it out becomes one operator (decomposed_norm.h has the forms).
//
//   x ─┬─ Pow(2) ─ ReduceMean ─ Add(eps) ─ Sqrt ─┐
//      └──────────────────────────────────────── Div ─ Mul(gamma) ─ y
//   =>
//   x ─ RMSNormalization(gamma) ─ y
//
// From opset 23 on; before that SimplifiedLayerNormalization, ONNX Runtime's own operator in the default domain, on
// targets that list it. Conditions are those of fuse-layer-norm.
#include "passes/fusion/norm_site.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const auto norm = MatchDecomposedNorm(context.graph(), root);
  if (!norm || !norm->means.empty()) return std::nullopt;
  const bool standard = context.MayMake("", "RMSNormalization");
  // The documentation of some targets lists it with the operators of com.microsoft.
  constexpr std::string_view kOlder = "SimplifiedLayerNormalization";
  if (!standard && !context.MayMake("", kOlder) && !context.MayMake("com.microsoft", kOlder)) {
    return context.Miss("RMSNormalization needs opset 23, or a target that has SimplifiedLayerNormalization");
  }
  const auto site = FindNormSite(context, *norm);
  if (!site) return std::nullopt;
  GraphEdit edit(site->last);
  auto node =
      NewNodeOf("", standard ? "RMSNormalization" : kOlder, {ValueRef::Of(site->x), site->scale.In(edit, "scale")});
  node.attributes.Set("axis", -site->axes);
  node.attributes.Set("epsilon", site->epsilon);
  edit.ReplaceNode(site->last, std::move(node));
  return edit;
}

}  // namespace

const Pass& FuseRmsNormPass() {
  static const Pass pass = {.name = "fuse-rms-norm",
                            .summary = "Division by the root mean square of the last axes becomes one RMSNormalization",
                            .roots = {"Div", "Mul"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
