// When arithmetic changes nothing. A zero's sign is not looked at: -0 + 0 is 0, and -0 after x + 0 has gone.
// That shows only where something divides by it or reads its bits, and runtimes do the same (ONNX Runtime at its basic
// level); x - 0, x * 1 and x / 1 are exact.
#include <algorithm>
#include <array>

#include "passes/cleanup/no_ops.h"
#include "passes/match.h"

namespace quant {
namespace {

constexpr int64_t kFirstWithBroadcasting = 7;  // before it the second input follows the first

// `node` has the shape of its input `x` although `other` is broadcast with it.
bool KeepsShape(const PassContext& context, const Node& node, ValueId x, ValueId other) {
  const Graph& graph = context.graph();
  const auto from = DimsOf(graph, x), to = DimsOf(graph, OutputOf(node, 0));
  if (from && to) return *from == *to;
  if (context.opset() < kFirstWithBroadcasting) return x == node.inputs[0];
  const auto &shape = graph.value(x).shape, &with = graph.value(other).shape;
  if (with && with->empty()) return true;
  if (!shape || !with || with->size() > shape->size()) return false;
  return std::equal(with->rbegin(), with->rend(), shape->rbegin(), [](const Dim& b, const Dim& a) {
    return b.value == 1 || (b.known() && a.known() && b.value == a.value);
  });
}

// The input beside one that is constant and all `number`.
ValueId Beside(const PassContext& context, const Node& node, double number, bool either_side) {
  if (node.inputs.size() != 2) return kNoValue;
  const ValueId a = node.inputs[0], b = node.inputs[1];
  if (IsConstantOf(context.graph(), b, number) && KeepsShape(context, node, a, b)) return a;
  if (either_side && IsConstantOf(context.graph(), a, number) && KeepsShape(context, node, b, a)) return b;
  return kNoValue;
}

ValueId ZeroEitherSide(const PassContext& context, const Node& node) { return Beside(context, node, 0, true); }
ValueId ZeroOnTheRight(const PassContext& context, const Node& node) { return Beside(context, node, 0, false); }
ValueId OneEitherSide(const PassContext& context, const Node& node) { return Beside(context, node, 1, true); }
ValueId OneOnTheRight(const PassContext& context, const Node& node) { return Beside(context, node, 1, false); }

ValueId OfOne(const PassContext& /*context*/, const Node& node) {
  return node.inputs.size() == 1 ? node.inputs[0] : kNoValue;
}

ValueId Where(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  if (node.inputs.size() != 3) return kNoValue;
  const ValueId condition = node.inputs[0];
  const bool first = IsConstantOf(graph, condition, 1);
  if (!first && !IsConstantOf(graph, condition, 0)) return kNoValue;
  const ValueId x = node.inputs[first ? 1 : 2], other = node.inputs[first ? 2 : 1];
  return KeepsShape(context, node, x, condition) && KeepsShape(context, node, x, other) ? x : kNoValue;
}

// From opset 11 on bounds are inputs; without any nothing is bounded.
ValueId Clip(const PassContext& context, const Node& node) {
  const bool bounded = InputOf(node, 1) != kNoValue || InputOf(node, 2) != kNoValue;
  return context.opset() >= 11 && !bounded ? node.inputs[0] : kNoValue;
}

// f(f(x)) = f(x).
ValueId DoneBefore(const PassContext& context, const Node& node) {
  return MadeBy(context.graph(), node.inputs[0], node.op_type) != nullptr ? node.inputs[0] : kNoValue;
}

// What is never negative.
ValueId NotNegative(const PassContext& context, const Node& node) {
  constexpr std::array kMakers = {"Relu", "Abs", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Sqrt"};
  const bool made = std::any_of(kMakers.begin(), kMakers.end(), [&](const char* maker) {
    return MadeBy(context.graph(), node.inputs[0], maker) != nullptr;
  });
  return made ? node.inputs[0] : kNoValue;
}

// f(f(x)) = x.
ValueId Undone(const PassContext& context, const Node& node) {
  const Node* first = MadeBy(context.graph(), node.inputs[0], node.op_type);
  return first == nullptr ? kNoValue : InputOf(*first, 0);
}

}  // namespace

std::span<const NoOp> ArithmeticNoOps() {
  static constexpr NoOp kAll[] = {{"Add", ZeroEitherSide}, {"Sub", ZeroOnTheRight}, {"Mul", OneEitherSide},
                                  {"Div", OneOnTheRight},  {"Pow", OneOnTheRight},  {"And", OneEitherSide},
                                  {"Or", ZeroEitherSide},  {"Where", Where},        {"Sum", OfOne},
                                  {"Max", OfOne},          {"Min", OfOne},          {"Mean", OfOne},
                                  {"Clip", Clip},          {"Ceil", DoneBefore},    {"Floor", DoneBefore},
                                  {"Round", DoneBefore},   {"Sign", DoneBefore},    {"Relu", NotNegative},
                                  {"Abs", NotNegative},    {"Neg", Undone},         {"Not", Undone}};
  return kAll;
}

}  // namespace quant
