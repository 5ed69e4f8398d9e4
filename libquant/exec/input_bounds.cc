#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "libquant/exec/session.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr int kMaxSteps = 64;
constexpr int64_t kMaxConstant = 4096;

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

// How values are followed to the lookups they reach.
struct Path {
  int steps = 0;
  bool arithmetic = true;  // through sums and products too
  Path Next() const { return {steps + 1, arithmetic}; }
};

int64_t BoundOf(const Graph& graph, ValueId v, Path path);

// The largest magnitude of the other operands of an integer operation on input 0: of small constants what they hold,
// of graph inputs that are no ids themselves 1, as masks are; nullopt for anything else.
std::optional<int64_t> LargestOther(const Graph& graph, const Node& node) {
  int64_t largest = 1;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const Value& other = graph.value(node.inputs[i]);
    if (!other.constant && other.is_input && node.inputs[i] != node.inputs[0] &&
        BoundOf(graph, node.inputs[i], {0, false}) == 0) {
      continue;
    }
    if (!other.constant || !other.constant->is_owned() || other.constant->size() > kMaxConstant) return std::nullopt;
    const auto see = [&](int64_t x) { largest = std::max(largest, x == INT64_MIN ? INT64_MAX : std::abs(x)); };
    if (other.constant->dtype() == DType::kInt64) {
      for (int64_t x : other.constant->data<int64_t>()) see(x);
    } else if (other.constant->dtype() == DType::kInt32) {
      for (int32_t x : other.constant->data<int32_t>()) see(x);
    } else {
      return std::nullopt;
    }
  }
  return largest;
}

// What `node`, which reads the value as input `index`, lets it be; 0 for no bound. Operators that hand input 0 on ask
// their readers. Arithmetic too, with a bound that stays right for sums, differences and products: exporters write
// lookups as Gather(table, ids * mask + kind) or Gather(positions, ids + 2).
int64_t BoundThrough(const Graph& graph, const Node& node, int32_t index, Path path) {
  const OpDef* op = FindOp(node.domain, node.op_type);
  if (op == nullptr) return 0;
  if (op->index_input && op->index_input->indices == index) return TableLength(graph, node, *op->index_input);
  if (index != 0 || node.outputs.empty() || node.outputs[0] == kNoValue) return 0;
  if (std::holds_alternative<PassThrough>(op->role)) return BoundOf(graph, node.outputs[0], path.Next());
  if (!path.arithmetic || !std::holds_alternative<Requantize>(op->role)) return 0;
  const auto other = LargestOther(graph, node);
  const int64_t bound = other ? BoundOf(graph, node.outputs[0], path.Next()) : 0;
  return bound == 0 ? 0 : std::max<int64_t>(1, std::min(bound - *other, bound / *other));
}

// The smallest bound that any reader of `v` sets, 0 when none does.
int64_t BoundOf(const Graph& graph, ValueId v, Path path) {
  int64_t bound = 0;
  if (path.steps > kMaxSteps) return 0;
  for (const Use& use : graph.value(v).uses) {
    if (use.node == kNoNode) continue;
    const int64_t found = BoundThrough(graph, graph.node(use.node), use.index, path);
    if (found > 0) bound = bound == 0 ? found : std::min(bound, found);
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
    out.push_back({value.name, value.dtype, value.shape, integer ? BoundOf(model.graph, v, {}) : 0});
  }
  return out;
}

}  // namespace quant
