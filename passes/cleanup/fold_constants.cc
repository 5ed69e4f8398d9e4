// A node whose inputs are all constant becomes its results.
//
//   Constant a, b ─ Add ─ y        =>        Constant y
//
// Results are at most PassOptions::max_constant_bytes large, or no larger than the constants that only this node reads
// and that go with it, so that no large weight is ever doubled. Nodes that make random numbers, run bodies or
// dequantize weights stay: the latter so that a runtime finds the codes.
#include <algorithm>

#include "libquant/ops/evaluate.h"
#include "libquant/ops/find_kernel.h"
#include "libquant/ops/random.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

// Bytes of the constants that go when the node does.
int64_t FreedBytes(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (ValueId v : node.inputs) {
    if (v != kNoValue && HasOneReader(graph, v)) bytes += graph.value(v).constant->byte_size();
  }
  return bytes;
}

std::optional<int64_t> ResultBytes(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (ValueId v : node.outputs) {
    if (v == kNoValue) continue;
    const auto dims = DimsOf(graph, v);
    const auto size = dims ? BytesFor(graph.value(v).dtype, *dims) : std::nullopt;
    if (!size) return std::nullopt;
    bytes += *size;
  }
  return bytes;
}

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (node.op_type == "Constant" || node.outputs.empty()) return std::nullopt;
  const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                               [&](ValueId v) { return v == kNoValue || ConstantOf(graph, v) != nullptr; });
  if (!all) return std::nullopt;
  if (MayDrawRandomNumbers(node, context.opset(node.domain))) return std::nullopt;
  const OpDef* op = FindKernel(node.domain, node.op_type, context.opset(node.domain));
  if (op != nullptr && std::holds_alternative<Quantizer>(op->role)) return std::nullopt;
  if (op == nullptr || RunsBodies(*op) || op->takes_lists) return context.Miss("it has no kernel for folding");
  const auto bytes = ResultBytes(graph, node);
  const int64_t limit = std::max(context.options().max_constant_bytes, FreedBytes(graph, node));
  if (!bytes) return context.Miss("the size of its result is not known");
  if (*bytes > limit) return context.Miss("its result of {} bytes would be above the limit of {}", *bytes, limit);
  std::vector<Tensor> owned(node.inputs.size());
  std::vector<const Tensor*> inputs(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    auto made = graph.value(node.inputs[i]).constant->Materialize();
    if (!made.ok()) return context.Miss("{}", Message(made.status()));
    owned[i] = *std::move(made);
    inputs[i] = &owned[i];
  }
  auto results = EvaluateOp(*op, node.attributes, context.opset(node.domain), inputs, node.outputs.size());
  if (!results.ok()) return context.Miss("{}", Message(results.status()));
  GraphEdit edit(root);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId y = node.outputs[i];
    if (y == kNoValue) continue;
    if (IsRegionOutput(graph, y)) return context.Miss("it makes an output of the graph");
    if (!(*results)[i].defined() || BytesFor((*results)[i].dtype(), (*results)[i].dims()) == std::nullopt) {
      return context.Miss("output {} is no tensor of numbers", i);
    }
    edit.Replace(y, edit.AddConstant(graph.value(y).name, (*results)[i]));
  }
  edit.Remove(root);
  return edit;
}

}  // namespace

const Pass& FoldConstantsPass() {
  static const Pass pass = {.name = "fold-constants",
                            .summary = "Nodes whose inputs are all constant become their results, up to a size limit",
                            .rule = Fold};
  return pass;
}

}  // namespace quant
