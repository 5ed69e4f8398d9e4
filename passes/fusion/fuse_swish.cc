// x times a sigmoid of x becomes one operator.
//
//   x ─┬─ Mul(alpha) ─ Sigmoid ─┐
//      └─────────────────────── Mul ─ y        =>        x ─ Swish(alpha) ─ y
//
// From opset 24 on; before that com.microsoft QuickGelu, which is the same with another name, on targets that have it.
#include "passes/fusion/activation.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  double alpha = 1;
  const auto swish = FindGated(graph, root, "Sigmoid", [&](const GatedFunction& gated) {
    alpha = gated.inner.of[1][0];
    return alpha != 0 && gated.inner.of == Terms({{1, 0, alpha}}).of && gated.outer.of == Terms({{1, 1, 1}}).of;
  });
  if (!swish) return std::nullopt;
  const bool standard = context.MayMake("", "Swish");
  if (!standard && !context.MayMake("com.microsoft", "QuickGelu")) {
    return context.Miss("Swish needs opset 24, or a target that has com.microsoft QuickGelu");
  }
  if (!MayTakeOver(context, *swish, root)) return std::nullopt;
  Attributes attributes;
  attributes.Set("alpha", static_cast<float>(alpha));
  return TakeOver(root, swish->x, standard ? "" : "com.microsoft", standard ? "Swish" : "QuickGelu",
                  std::move(attributes));
}

}  // namespace

const Pass& FuseSwishPass() {
  static const Pass pass = {
      .name = "fuse-swish", .summary = "x times a sigmoid of x becomes Swish", .roots = {"Mul"}, .rule = Fuse};
  return pass;
}

}  // namespace quant
