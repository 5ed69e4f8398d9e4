// Clipped lines become HardSigmoid, and what is gated by one HardSwish.
//
//   x ─ Mul(a) ─ Add(b) ─ Clip(0, 1) ─ y                 =>   x ─ HardSigmoid(a, b) ─ y
//   x ─ Add(3) ─ Clip(0, 6) ─ Div(6) ─ y                 =>   x ─ HardSigmoid(1/6, 1/2) ─ y
//   x ─┬─ Add(3) ─ Clip(0, 6) ─┐
//      └────────────────────── Mul ─ Div(6) ─ y          =>   x ─ HardSwish ─ y
//   x ─┬─ HardSigmoid(1/6, 1/2) ─┐
//      └──────────────────────── Mul ─ y                 =>   x ─ HardSwish ─ y
//
// in any order and grouping of the factors (polynomial.h). Where the opset is below 14, or the slope is another, what
// is gated becomes a HardSigmoid and a Mul.
#include <cmath>

#include "passes/fusion/activation.h"
#include "passes/match.h"

namespace quant {
namespace {

// y = clamp(alpha * x + beta, 0, 1), times x when `gated`.
struct HardGate {
  GatedFunction match;
  double alpha = 0, beta = 0;
  bool gated = false;
};

struct Bounds {
  double low = 0, high = 0;
};

std::optional<Bounds> BoundsOf(const Graph& graph, const Node& clip) {
  if (HasReferences(clip)) return std::nullopt;
  if (clip.attributes.Has("min") && clip.attributes.Has("max")) {
    return Bounds{clip.attributes.Float("min", 0), clip.attributes.Float("max", 0)};
  }
  const auto low = NumberOf(graph, InputOf(clip, 1)), high = NumberOf(graph, InputOf(clip, 2));
  if (!low || !high) return std::nullopt;
  return Bounds{*low, *high};
}

// factor * e alone, or factor * x * e.
std::optional<double> FactorOf(const Polynomial& outer, bool gated) {
  const double factor = outer.of[gated ? 1 : 0][1];
  const Polynomial wanted = Terms({{gated ? 1 : 0, 1, factor}});
  if (factor == 0 || wanted.of != outer.of) return std::nullopt;
  return factor;
}

bool IsLine(const Polynomial& p) { return p.of[1][0] != 0 && p.of[2][0] == 0 && p.of[3][0] == 0; }

std::optional<HardGate> GateOf(const Graph& graph, const GatedFunction& match) {
  const auto bounds = BoundsOf(graph, graph.node(match.function));
  if (!bounds || bounds->low != 0 || match.parts.size() < 2 || !IsLine(match.inner)) return std::nullopt;
  for (const bool gated : {false, true}) {
    const auto factor = FactorOf(match.outer, gated);
    if (!factor || !IsNear(*factor * bounds->high, 1, TypeOf(graph, match.x))) continue;
    return HardGate{match, *factor * match.inner.of[1][0], *factor * match.inner.of[0][0], gated};
  }
  return std::nullopt;
}

// The reading that takes in most of what is before the Clip and is read by nothing else; failing that, any.
std::optional<HardGate> FromClip(const Graph& graph, NodeId root) {
  std::optional<HardGate> found;
  for (const GatedFunction& match : ReadGated(graph, root, "Clip")) {
    auto gate = GateOf(graph, match);
    if (!gate) continue;
    const bool free = !WhyNotFreed(graph, match.parts, root);
    if (free || !found) found = std::move(gate);
  }
  return found;
}

std::optional<HardGate> FromHardSigmoid(const Graph& graph, NodeId root) {
  for (GatedFunction& match : ReadGated(graph, root, "HardSigmoid")) {
    const Node& node = graph.node(match.function);
    const auto factor = FactorOf(match.outer, true);
    if (HasReferences(node) || !factor || *factor != 1 || match.inner.of != Terms({{1, 0, 1}}).of) continue;
    const double alpha = node.attributes.Float("alpha", 0.2F), beta = node.attributes.Float("beta", 0.5F);
    return HardGate{std::move(match), alpha, beta, true};
  }
  return std::nullopt;
}

Attributes LineAttributes(double alpha, double beta, DType dtype) {
  Attributes attributes;
  // What 3 and 6 make, without what rounding made of it.
  attributes.Set("alpha", static_cast<float>(IsNear(alpha, 1.0 / 6, dtype) ? 1.0 / 6 : alpha));
  attributes.Set("beta", static_cast<float>(IsNear(beta, 0.5, dtype) ? 0.5 : beta));
  return attributes;
}

GraphEdit MakeGate(const Graph& graph, NodeId root, const HardGate& gate) {
  GraphEdit edit(root);
  const Value& x = graph.value(gate.match.x);
  auto sigmoid = NewNodeOf("", "HardSigmoid", {ValueRef::Of(gate.match.x)});
  sigmoid.name_hint = graph.node(root).name + "_gate";
  sigmoid.attributes = LineAttributes(gate.alpha, gate.beta, x.dtype);
  const ValueRef gated = edit.AddNode(std::move(sigmoid), x.dtype, x.shape);
  edit.ReplaceNode(root, NewNodeOf("", "Mul", {ValueRef::Of(gate.match.x), gated}));
  return edit;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  auto gate = FromClip(graph, root);
  const bool from_clip = gate.has_value();
  if (!gate) gate = FromHardSigmoid(graph, root);
  if (!gate) return std::nullopt;
  const DType dtype = TypeOf(graph, gate->match.x);
  const bool swish = gate->gated && IsNear(gate->alpha, 1.0 / 6, dtype) && IsNear(gate->beta, 0.5, dtype);
  const bool whole = swish && context.MayMake("", "HardSwish");
  if (!whole && !from_clip) {
    return swish ? context.Miss("HardSwish needs opset 14 and a target that has it") : std::nullopt;
  }
  if (!whole && !context.MayMake("", "HardSigmoid")) return context.Miss("the target has no HardSigmoid");
  if (!MayTakeOver(context, gate->match, root)) return std::nullopt;
  if (whole) return TakeOver(root, gate->match.x, "", "HardSwish");
  if (gate->gated) return gate->match.parts.size() > 2 ? std::optional(MakeGate(graph, root, *gate)) : std::nullopt;
  return TakeOver(root, gate->match.x, "", "HardSigmoid", LineAttributes(gate->alpha, gate->beta, dtype));
}

}  // namespace

const Pass& FuseHardSwishPass() {
  static const Pass pass = {.name = "fuse-hard-swish",
                            .summary = "Lines clipped to 0 and 1 become HardSigmoid, x times that HardSwish",
                            .roots = {"Mul", "Div", "Clip"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
