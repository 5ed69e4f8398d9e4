#include <algorithm>
#include <optional>

#include "libquant/exec/session.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr int kMaxSteps = 64;

// The smallest table that values read from `v` index into, following operators that hand their first input on;
// 0 when it reaches none.
int64_t BoundOf(const Graph& graph, ValueId v, int steps) {
  int64_t bound = 0;
  const auto take = [&](int64_t found) { bound = found == 0 ? bound : bound == 0 ? found : std::min(bound, found); };
  if (steps > kMaxSteps) return 0;
  for (const Use& use : graph.value(v).uses) {
    if (use.node == kNoNode) continue;
    const Node& node = graph.node(use.node);
    const OpDef* op = FindOp(node.domain, node.op_type);
    if (op == nullptr) continue;
    if (op->index_input && op->index_input->indices == use.index) {
      const auto table = static_cast<size_t>(op->index_input->table);
      const auto& constant = table < node.inputs.size() ? graph.value(node.inputs[table]).constant : std::nullopt;
      if (!constant || constant->rank() == 0) continue;
      int64_t axis =
          op->index_input->axis_attribute.empty() ? 0 : node.attributes.Int(op->index_input->axis_attribute, 0);
      if (axis < 0) axis += constant->rank();
      if (axis >= 0 && axis < constant->rank()) take(constant->dims()[static_cast<size_t>(axis)]);
    } else if (use.index == 0 && std::holds_alternative<PassThrough>(op->role) && !node.outputs.empty() &&
               node.outputs[0] != kNoValue) {
      take(BoundOf(graph, node.outputs[0], steps + 1));
    }
  }
  return bound;
}

}  // namespace

std::vector<InputSpec> RequiredInputs(const Model& model) {
  std::vector<InputSpec> out;
  for (ValueId v : model.graph.main().inputs) {
    const Value& value = model.graph.value(v);
    if (value.is_initializer) continue;
    const bool integer = value.dtype == DType::kInt64 || value.dtype == DType::kInt32;
    out.push_back({value.name, value.dtype, value.shape, integer ? BoundOf(model.graph, v, 0) : 0});
  }
  return out;
}

}  // namespace quant
