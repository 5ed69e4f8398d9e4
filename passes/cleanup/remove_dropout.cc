// A Dropout that drops nothing: its readers read its input, and its ratio, training_mode and mask go with it.
//
//   x, ratio ─ Dropout ─ y, mask        =>        x
//
// Nobody reads the mask, and the node is at inference: from opset 12 on training_mode is left out or a constant false,
// or the ratio a constant 0; before opset 7 is_test is set; between them there is no other mode.
#include "passes/cleanup/return_input.h"
#include "passes/match.h"

namespace quant {
namespace {

constexpr int64_t kFirstWithoutIsTest = 7, kFirstWithTrainingMode = 12;

std::optional<GraphEdit> Remove(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "Dropout")) return std::nullopt;
  const int64_t opset = context.opset();
  if (opset < kFirstWithoutIsTest && node.attributes.Int("is_test", 0) == 0) return context.Miss("is_test is not set");
  const ValueId training = InputOf(node, 2);
  if (opset >= kFirstWithTrainingMode && training != kNoValue) {
    const std::optional<bool> trains = BoolOf(graph, training);
    if (!trains) return context.Miss("training_mode is not a constant");
    if (*trains && ScalarOf(graph, InputOf(node, 1)) != 0.0) return context.Miss("training_mode is true");
  }
  const ValueId mask = OutputOf(node, 1);
  if (mask != kNoValue && !graph.value(mask).uses.empty()) return context.Miss("its mask is read");
  return ReturnInput(context, root, InputOf(node, 0));
}

}  // namespace

const Pass& RemoveDropoutPass() {
  static const Pass pass = {.name = "remove-dropout",
                            .summary = "Readers of a Dropout at inference read its input",
                            .roots = {"Dropout"},
                            .rule = Remove};
  return pass;
}

}  // namespace quant
