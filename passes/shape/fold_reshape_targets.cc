// A Reshape whose target is computed gets a constant one.
//
//   x[batch, seq, 128]                                         x[batch, seq, 128]
//     ├─ Shape ─ Gather ... Concat(batch, seq, 2, 64) ─ t =>     Reshape([0, 0, 2, 64]) ─ y
//     └───────────── Reshape(t) ─ y
//
// Each element must be
//   a number: of the target, or of y's shape,
//   or the same dimension that x has at that place: 0 copies it (not with allowzero, where 0 means 0),
//   or the only one left: -1 takes what remains. That is right only if no other dimension can be 0: together with
//   copied dimensions it is made only where the target says -1 itself.
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/shape/shape_values.h"

namespace quant {
namespace {

struct Target {
  std::vector<int64_t> dims;
  int zeros = 0;
  int open = 0;     // elements that are -1 already
  int guessed = 0;  // elements nothing is known of, which become -1
};

// What takes the place of one element; nullopt when nothing is known of it.
std::optional<int64_t> Certain(const ShapeValues& values, const std::optional<DimExpr>& element, const Node& node,
                               size_t i, bool zero_copies) {
  const auto kept = values.DimOf(node.inputs[0], i), made = values.DimOf(node.outputs[0], i);
  const auto number = element ? element->number() : std::nullopt;
  const auto positive = [](const std::optional<DimExpr>& dim) {
    const auto n = dim ? dim->number() : std::nullopt;
    return n && *n > 0 ? n : std::nullopt;
  };
  if (number && (*number > 0 || *number < -1)) return number;
  if (number == 0) return zero_copies && positive(kept) ? positive(kept) : number;
  if (zero_copies && kept && element && *kept == *element) return 0;
  if (const auto n = positive(made)) return n;
  if (!number && zero_copies && kept && made && *kept == *made) return 0;
  return number;
}

Target Choose(const ShapeValues& values, const ShapeValue& computed, const Node& node, bool zero_copies) {
  Target out;
  for (size_t i = 0; i < computed.elements.size(); ++i) {
    const auto certain = Certain(values, computed.elements[i], node, i, zero_copies);
    out.dims.push_back(certain.value_or(-1));
    out.zeros += certain == 0;
    out.open += certain == -1;
    out.guessed += !certain;
  }
  return out;
}

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "Reshape") || node.inputs.size() != 2 || OutputOf(node, 0) == kNoValue) return std::nullopt;
  const ValueId target = node.inputs[1];
  const Attribute* allow_zero = node.attributes.Find("allowzero");
  if (target == kNoValue || graph.value(target).constant) return std::nullopt;
  if (allow_zero != nullptr && !allow_zero->ref_name.empty()) return std::nullopt;
  ShapeValues values(graph, context.opset());
  const ShapeValue* computed = values.Of(target);
  if (computed == nullptr || computed->scalar) return context.Miss("the length of the target is not known");
  const auto rank = values.RankOf(node.outputs[0]);
  if (rank && *rank != computed->elements.size()) return std::nullopt;
  const bool zero_copies = node.attributes.Int("allowzero", 0) == 0;
  const Target chosen = Choose(values, *computed, node, zero_copies);
  if (chosen.guessed + chosen.open > 1) {
    return context.Miss("{} elements of the target are not known", chosen.guessed + chosen.open);
  }
  if (chosen.guessed > 0 && chosen.zeros > 0) {
    return context.Miss("an element of the target is not known, and a dimension that is copied could be 0");
  }
  for (int64_t d : chosen.dims) {
    if (d < -1) return context.Miss("the target holds {}", d);
  }
  GraphEdit edit(root);
  const Tensor constant = Tensor::Of<int64_t>({static_cast<int64_t>(chosen.dims.size())}, std::span(chosen.dims));
  edit.SetInput(root, 1, edit.AddConstant(graph.value(target).name, constant));
  return edit;
}

}  // namespace

const Pass& FoldReshapeTargetsPass() {
  static const Pass pass = {
      .name = "fold-reshape-targets",
      .summary =
          "A Reshape's computed target becomes a constant: numbers, 0 for a dimension kept, -1 for one left over",
      .roots = {"Reshape"},
      .rule = Fold};
  return pass;
}

}  // namespace quant
