// A node that gives back one of its inputs unchanged goes; its readers read the input.
//
//   x ─ Reshape to x's own shape ─ y        =>        x
//   x, zeros ─ Add ─ y                      =>        x
//
// That input and output are equal must be proven from constants, attributes and shapes (no_op_*.cc say how, operator
// by operator); nobody reads the node's other outputs.
#include <algorithm>

#include "passes/cleanup/no_ops.h"
#include "passes/cleanup/return_input.h"
#include "passes/match.h"

namespace quant {
namespace {

std::vector<NoOp> AllNoOps() {
  std::vector<NoOp> all;
  for (const auto list : {MoverNoOps(), WindowNoOps(), ArithmeticNoOps()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

const std::vector<NoOp>& NoOps() {
  static const std::vector<NoOp> all = AllNoOps();
  return all;
}

std::optional<GraphEdit> Eliminate(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const auto& all = NoOps();
  const auto no_op = std::find_if(all.begin(), all.end(), [&](const NoOp& n) { return IsOp(node, n.op_type); });
  if (no_op == all.end() || HasReferences(node) || node.inputs.empty() || node.inputs[0] == kNoValue) {
    return std::nullopt;
  }
  const ValueId x = no_op->returned(context, node);
  if (x == kNoValue) return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    const ValueId other = node.outputs[i];
    if (other != kNoValue && !graph.value(other).uses.empty()) return context.Miss("its output {} is read", i);
  }
  return ReturnInput(context, root, x);
}

std::vector<std::string_view> Roots() {
  std::vector<std::string_view> out;
  for (const NoOp& n : NoOps()) out.push_back(n.op_type);
  return out;
}

}  // namespace

const Pass& EliminateNoOpsPass() {
  static const Pass pass = {.name = "eliminate-no-ops",
                            .summary = "Readers of a node that gives back its input unchanged read that input",
                            .roots = Roots(),
                            .rule = Eliminate};
  return pass;
}

}  // namespace quant
