#include "libquant/lint/foldable.h"

#include <algorithm>

#include "libquant/ops/random.h"

namespace quant {
namespace {

bool IsStandard(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

bool ReadsShapeOnly(const Node& node) { return node.op_type == "Shape" || node.op_type == "Size"; }

}  // namespace

std::vector<bool> FoldableNodes(const Graph& graph, int64_t ir_version, int64_t opset) {
  std::vector<bool> known(static_cast<size_t>(graph.value_count()), false);
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    known[static_cast<size_t>(v)] = value.constant.has_value() && !(value.is_input && ir_version >= 4);
  }
  std::vector<bool> out(static_cast<size_t>(graph.node_count()), false);
  for (NodeId n : graph.AllNodes()) {
    const Node& node = graph.node(n);
    if (!IsStandard(node) || !BodiesOf(node).empty() || MayDrawRandomNumbers(node, opset)) continue;
    const bool shape_only = ReadsShapeOnly(node);
    const bool folds = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      if (v == kNoValue || known[static_cast<size_t>(v)]) return true;
      const Value& value = graph.value(v);
      return shape_only && value.shape && StaticDims(*value.shape);
    });
    if (!folds) continue;
    out[static_cast<size_t>(n)] = true;
    for (ValueId v : node.outputs) {
      if (v != kNoValue) known[static_cast<size_t>(v)] = true;
    }
  }
  return out;
}

}  // namespace quant
