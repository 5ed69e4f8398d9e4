// Gelu and its relatives of com.microsoft in basic operators.
//
//   Gelu(x)                        =>   0.5 * x * (1 + Erf(x / Sqrt(2)))
//   Gelu<approximate = "tanh">(x)  =>   0.5 * x * (1 + Tanh(Sqrt(2 / pi) * (x + 0.044715 * x^3)))
//   BiasGelu(x, b)                 =>   Gelu(x + b)
//   FastGelu(x, b)                 =>   Gelu<approximate = "tanh">(x + b)
//   QuickGelu<alpha>(x)            =>   x * Sigmoid(alpha * x)
//
// Condition: the element type is known.
#include <cmath>
#include <numbers>

#include "passes/convert/speller.h"

namespace quant {
namespace {

bool IsFloat(DType type) {
  return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBfloat16 || type == DType::kDouble;
}

ValueRef Exact(Speller& spell, ValueRef x) {
  const ValueRef erf = spell.Op("Erf", {spell.Op("Mul", {x, spell.Number(std::numbers::sqrt2 / 2)})});
  const ValueRef half = spell.Op("Mul", {x, spell.Number(0.5)});
  return spell.Op("Mul", {half, spell.Op("Add", {erf, spell.Number(1)})});
}

ValueRef ByTanh(Speller& spell, ValueRef x) {
  const ValueRef cube = spell.Op("Mul", {spell.Op("Mul", {x, x}), x});
  const ValueRef inner = spell.Op("Add", {x, spell.Op("Mul", {cube, spell.Number(0.044715)})});
  const double factor = std::sqrt(2 / std::numbers::pi);
  const ValueRef tanh = spell.Op("Tanh", {spell.Op("Mul", {inner, spell.Number(factor)})});
  const ValueRef half = spell.Op("Mul", {x, spell.Number(0.5)});
  return spell.Op("Mul", {half, spell.Op("Add", {tanh, spell.Number(1)})});
}

std::optional<GraphEdit> Gelu(const PassContext& context, NodeId root) {
  const Node& node = context.graph().node(root);
  if (!IsOp(node, "Gelu") && !IsOp(node, "com.microsoft", "Gelu")) return std::nullopt;
  Speller spell(context, root);
  if (!IsFloat(spell.type())) return context.Miss("the element type is not known");
  const bool tanh = node.attributes.String("approximate", "none") == "tanh";
  return spell.Finish(tanh ? ByTanh(spell, spell.Input(0)) : Exact(spell, spell.Input(0)));
}

std::optional<GraphEdit> WithBias(const PassContext& context, NodeId root, const char* op_type,
                                  ValueRef (*gelu)(Speller&, ValueRef)) {
  const Node& node = context.graph().node(root);
  if (!IsOp(node, "com.microsoft", op_type)) return std::nullopt;
  Speller spell(context, root);
  if (!IsFloat(spell.type())) return context.Miss("the element type is not known");
  const ValueRef x = spell.HasInput(1) ? spell.Op("Add", {spell.Input(0), spell.Input(1)}) : spell.Input(0);
  return spell.Finish(gelu(spell, x));
}

std::optional<GraphEdit> BiasGelu(const PassContext& context, NodeId root) {
  return WithBias(context, root, "BiasGelu", Exact);
}
std::optional<GraphEdit> FastGelu(const PassContext& context, NodeId root) {
  return WithBias(context, root, "FastGelu", ByTanh);
}

std::optional<GraphEdit> QuickGelu(const PassContext& context, NodeId root) {
  const Node& node = context.graph().node(root);
  if (!IsOp(node, "com.microsoft", "QuickGelu")) return std::nullopt;
  Speller spell(context, root);
  if (!IsFloat(spell.type())) return context.Miss("the element type is not known");
  const ValueRef scaled = spell.Op("Mul", {spell.Input(0), spell.Number(node.attributes.Float("alpha", 1.702f))});
  return spell.Finish(spell.Op("Mul", {spell.Input(0), spell.Op("Sigmoid", {scaled})}));
}

}  // namespace

const Pass& DecomposeBiasGeluPass() {
  static const Pass pass = {
      .name = "decompose-bias-gelu", .summary = "BiasGelu in basic operators", .roots = {"BiasGelu"}, .rule = BiasGelu};
  return pass;
}

const Pass& DecomposeFastGeluPass() {
  static const Pass pass = {
      .name = "decompose-fast-gelu", .summary = "FastGelu in basic operators", .roots = {"FastGelu"}, .rule = FastGelu};
  return pass;
}

const Pass& DecomposeGeluPass() {
  static const Pass pass = {
      .name = "decompose-gelu", .summary = "Gelu in basic operators", .roots = {"Gelu"}, .rule = Gelu};
  return pass;
}

const Pass& DecomposeQuickGeluPass() {
  static const Pass pass = {.name = "decompose-quick-gelu",
                            .summary = "QuickGelu in basic operators",
                            .roots = {"QuickGelu"},
                            .rule = QuickGelu};
  return pass;
}

}  // namespace quant
