// com.microsoft EmbedLayerNormalization in basic operators.
//
//   EmbedLayerNormalization(ids, segments, words, positions, table, gamma, beta, mask, steps)
//   =>
//   s = Gather(words, ids) + Gather(positions, steps) + Gather(table, segments)
//   d = s - ReduceMean(s)
//   d / Sqrt(ReduceMean(d * d) + epsilon) * gamma + beta
//   ReduceSum(mask == 1)                                      its output 1, where that is read
//
// Steps not given count from 0. The sum s is the node's output 2, if there is one.
//
// Conditions: opset 11 for Range where there are no steps, tables of float32, and no reading of the count of a mask
// that is not there.
#include "passes/convert/speller.h"

namespace quant {
namespace {

enum Input { kIds, kSegments, kWord, kPosition, kSegment, kGamma, kBeta, kMask, kPositionIds };

bool IsRead(const Graph& graph, ValueId value) { return value != kNoValue && !graph.value(value).uses.empty(); }

// How many of each sample's numbers are 1, int32.
ValueRef CountOnes(const PassContext& context, Speller& spell) {
  const ValueRef ones = spell.OpOf(DType::kBool, "Equal", {spell.Input(kMask), spell.Int32(1)});
  Attributes to, attributes;
  to.Set("to", static_cast<int64_t>(DType::kInt32));
  const ValueRef numbers = spell.OpOf(DType::kInt32, "Cast", {ones}, std::move(to));
  attributes.Set("keepdims", int64_t{0});
  if (context.opset() >= 13) {
    return spell.OpOf(DType::kInt32, "ReduceSum", {numbers, spell.Ints("axes", {1})}, std::move(attributes));
  }
  attributes.Set("axes", std::vector<int64_t>{1});
  return spell.OpOf(DType::kInt32, "ReduceSum", {numbers}, std::move(attributes));
}

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "com.microsoft", "EmbedLayerNormalization") || HasReferences(node)) return std::nullopt;
  Speller spell(context, root, kWord);
  if (spell.type() != DType::kFloat) return context.Miss("its tables are not float32");
  if (!spell.HasInput(kIds) || !spell.HasInput(kPosition) || !spell.HasInput(kGamma) || !spell.HasInput(kBeta)) {
    return std::nullopt;
  }
  if (spell.HasInput(kSegments) != spell.HasInput(kSegment)) return std::nullopt;
  const bool counts = IsRead(graph, OutputOf(node, 1));
  if (counts && !spell.HasInput(kMask)) return context.Miss("its mask_index is read, and there is no mask");
  if (!spell.HasInput(kPositionIds) && context.opset() < 11) return context.Miss("counting positions needs opset 11");
  const ValueRef steps = spell.HasInput(kPositionIds) ? spell.Input(kPositionIds)
                                                      : spell.Range(spell.Int(0), spell.Length(spell.Input(kIds), 1));
  const auto look_up = [&](size_t table, ValueRef rows) { return spell.Op("Gather", {spell.Input(table), rows}); };
  ValueRef sum = spell.Op("Add", {look_up(kWord, spell.Input(kIds)), look_up(kPosition, steps)});
  if (spell.HasInput(kSegments)) sum = spell.Op("Add", {sum, look_up(kSegment, spell.Input(kSegments))});
  ValueRef y = spell.Standardized(sum, {-1}, node.attributes.Float("epsilon", 1e-12F));
  y = spell.Op("Add", {spell.Op("Mul", {y, spell.Input(kGamma)}), spell.Input(kBeta)});
  if (!counts) return spell.Finish(y, {{2, sum}});
  return spell.Finish(y, {{1, CountOnes(context, spell)}, {2, sum}});
}

}  // namespace

const Pass& DecomposeEmbedLayerNormalizationPass() {
  static const Pass pass = {.name = "decompose-embed-layer-normalization",
                            .summary = "EmbedLayerNormalization in basic operators",
                            .roots = {"EmbedLayerNormalization"},
                            .rule = Decompose};
  return pass;
}

}  // namespace quant
