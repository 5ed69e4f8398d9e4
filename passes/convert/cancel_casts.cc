#include "passes/convert/cancel_casts.h"

#include "libquant/model/signature.h"

namespace quant {
namespace {

// Every value of `from` is one of `to`.
bool Widens(DType from, DType to) {
  const bool half = from == DType::kFloat16 || from == DType::kBfloat16;
  return (half && (to == DType::kFloat || to == DType::kDouble)) || (from == DType::kFloat && to == DType::kDouble);
}

bool IsCast(const Graph& graph, NodeId n) {
  return n != kNoNode && graph.node(n).op_type == "Cast" && graph.node(n).domain.empty();
}

}  // namespace

int CancelCasts(Graph& graph) {
  int changes = 0;
  for (NodeId n : graph.AllNodes()) {
    if (!IsCast(graph, n)) continue;
    const ValueId x = graph.node(n).inputs.at(0), y = graph.node(n).outputs.at(0);
    const DType to = graph.value(y).dtype, from = DTypeOfValue(graph, x);
    if (!InfoOf(to).is_float) continue;
    ValueId source = kNoValue;
    if (from == to) source = x;
    const NodeId before = graph.value(x).producer;
    if (source == kNoValue && IsCast(graph, before)) {
      const ValueId origin = graph.node(before).inputs.at(0);
      if (DTypeOfValue(graph, origin) == to && Widens(to, from)) source = origin;
    }
    if (source == kNoValue) continue;
    const std::vector<Use> uses = graph.value(y).uses;
    for (const Use& use : uses) {
      if (use.node == kNoNode && use.region == kMainRegion) continue;  // an output's name
      if (use.node == kNoNode) {
        graph.SetOutput(use.region, use.index, source);
      } else {
        graph.SetInput(use.node, use.index, source);
      }
      ++changes;
    }
  }
  return changes;
}

}  // namespace quant
