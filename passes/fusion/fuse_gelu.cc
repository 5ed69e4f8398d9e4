// The Gaussian error linear unit as exporters spell it out becomes one operator.
//
//   x ─┬─ Div(sqrt 2) ─ Erf ─ Add(1) ─┐
//      └───────────────────────────── Mul ─ Mul(0.5) ─ y        =>        x ─ Gelu ─ y
//
//   x ─┬─ Pow(3) ─ Mul(0.044715) ─ Add(x) ─ Mul(sqrt(2 / pi)) ─ Tanh ─ Add(1) ─┐
//      └────────────────────────────────────────────────────────────────────── Mul ─ Mul(0.5) ─ y
//   =>
//   x ─ Gelu(approximate tanh) ─ y
//
// in any order and grouping of the factors (polynomial.h). From opset 20 on; before that com.microsoft's Gelu and
// FastGelu on targets that have them.
#include <cmath>

#include "passes/fusion/activation.h"
#include "passes/match.h"

namespace quant {
namespace {

const double kRootHalf = std::sqrt(0.5);
const double kTanhFactor = std::sqrt(2 / M_PI);
constexpr double kTanhCubic = 0.044715;

std::optional<GatedFunction> FindGelu(const Graph& graph, NodeId root, bool by_tanh) {
  const Polynomial inner =
      by_tanh ? Terms({{1, 0, kTanhFactor}, {3, 0, kTanhFactor * kTanhCubic}}) : Terms({{1, 0, kRootHalf}});
  const Polynomial outer = Terms({{1, 0, 0.5}, {1, 1, 0.5}});
  return FindGated(graph, root, by_tanh ? "Tanh" : "Erf", [&](const GatedFunction& gated) {
    const DType dtype = TypeOf(graph, gated.x);
    return gated.inner.IsNear(inner, dtype) && gated.outer.IsNear(outer, dtype);
  });
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  for (const bool by_tanh : {false, true}) {
    const auto gelu = FindGelu(context.graph(), root, by_tanh);
    if (!gelu) continue;
    const bool standard = context.MayMake("", "Gelu");
    const std::string_view name = standard || !by_tanh ? "Gelu" : "FastGelu";
    if (!standard && !context.MayMake("com.microsoft", name)) {
      return context.Miss("Gelu needs opset 20, or a target that has com.microsoft {}", name);
    }
    if (!MayTakeOver(context, *gelu, root)) return std::nullopt;
    Attributes attributes;
    if (standard && by_tanh) attributes.Set("approximate", std::string("tanh"));
    return TakeOver(root, gelu->x, standard ? "" : "com.microsoft", name, std::move(attributes));
  }
  return std::nullopt;
}

}  // namespace

const Pass& FuseGeluPass() {
  static const Pass pass = {.name = "fuse-gelu",
                            .summary = "Gaussian error linear units spelled out by Erf or Tanh become Gelu",
                            .roots = {"Mul", "Div", "Add"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
