#include <algorithm>
#include <optional>

#include "libquant/exec/session.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr int kMaxSteps = 64;

// Entries of the table that `node` looks up in, 0 when unknown. A table that is computed (say a dequantized one) counts
// by its inferred shape.
int64_t TableLength(const Graph& graph, const Node& node, const IndexInput& lookup) {
  const auto table = static_cast<size_t>(lookup.table);
  if (table >= node.inputs.size() || node.inputs[table] == kNoValue) return 0;
  const Value& value = graph.value(node.inputs[table]);
  const auto rank = value.constant ? value.constant->rank()
                    : value.shape  ? static_cast<int64_t>(value.shape->size())
                                   : 0;
  int64_t axis = lookup.axis_attribute.empty() ? 0 : node.attributes.Int(lookup.axis_attribute, 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return 0;
  const auto at = static_cast<size_t>(axis);
  return value.constant ? value.constant->dims()[at] : std::max<int64_t>(0, (*value.shape)[at].value);
}

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
      take(TableLength(graph, node, *op->index_input));
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
