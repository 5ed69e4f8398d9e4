// An Identity's readers read what it reads.
//
//   x ─ Identity ─ y ─ Op        =>        x ─ Op
//
// Kept where it gives a region's output a name that its input can't take over (an input, a weight, an outer value or
// another output).
#include "passes/cleanup/return_input.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<GraphEdit> Eliminate(const PassContext& context, NodeId root) {
  const Node& node = context.graph().node(root);
  return IsOp(node, "Identity") ? ReturnInput(context, root, InputOf(node, 0)) : std::nullopt;
}

}  // namespace

const Pass& EliminateIdentityPass() {
  static const Pass pass = {.name = "eliminate-identity",
                            .summary = "Readers of an Identity read its input",
                            .roots = {"Identity"},
                            .rule = Eliminate};
  return pass;
}

}  // namespace quant
