#include "passes/quant/keep_half.h"

#include "libquant/ir/edit.h"
#include "libquant/numerics/half_tensor.h"

namespace quant {
namespace {

// The first node of the value's region that reads it, or whose bodies do; kNoNode when only outputs show it.
NodeId FirstReader(const Graph& graph, ValueId v) {
  const RegionId region = graph.value(v).region;
  for (NodeId n : graph.region(region).nodes) {
    for (const Use& use : graph.value(v).uses) {
      NodeId reader = use.node;
      while (reader != kNoNode && graph.node(reader).region != region) {
        reader = graph.region(graph.node(reader).region).owner;
      }
      if (reader == n) return n;
    }
  }
  return kNoNode;
}

}  // namespace

Status KeepAsHalf(Model& model, const QuantizePlan& plan) {
  for (const WeightVerdict& verdict : plan.verdicts) {
    if (verdict.kind == VerdictKind::kQuantized) continue;
    Graph& graph = GraphOf(model, verdict.function);
    const Value weight = graph.value(verdict.value);
    if (weight.removed || weight.constant->dtype() != DType::kFloat) continue;
    const NodeId first = FirstReader(graph, verdict.value);
    if (first == kNoNode) continue;
    GraphEdit edit(first);
    const ValueRef half =
        edit.AddConstant(weight.name + ".half", HalfTensor(verdict.weight, *weight.constant), weight.region);
    GraphEdit::NewNode cast{weight.name + ".cast", "Cast", "", {half}, {}, {}};
    cast.attributes.Set("to", static_cast<int64_t>(DType::kFloat));
    const ValueRef value = edit.AddNode(std::move(cast), DType::kFloat, ShapeOf(weight.constant->dims()));
    for (const Use& use : weight.uses) {
      if (use.node != kNoNode) edit.SetInput(use.node, use.index, value);
    }
    RETURN_IF_ERROR(edit.ApplyTo(graph));
  }
  return OkStatus();
}

}  // namespace quant
