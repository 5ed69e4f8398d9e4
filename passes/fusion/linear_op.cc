#include "passes/fusion/linear_op.h"

#include <algorithm>

#include "passes/match.h"

namespace quant {
namespace {

using Kind = LinearOp::Kind;

std::optional<Kind> KindOf(const Node& node) {
  if (IsOp(node, "Conv")) return Kind::kConv;
  if (IsOp(node, "ConvTranspose")) return Kind::kConvTranspose;
  if (IsOp(node, "Gemm")) return Kind::kGemm;
  if (IsOp(node, "MatMul")) return Kind::kMatMul;
  return std::nullopt;
}

// Channels of the operator from its weight's dims; false when they don't fit.
bool TakeChannels(const Node& node, const Dims& w, LinearOp& op) {
  const bool conv = op.kind == Kind::kConv || op.kind == Kind::kConvTranspose;
  const auto rank = static_cast<int64_t>(w.size());
  if (conv ? rank < 3 : rank != 2) return false;
  if (conv) {
    op.groups = node.attributes.Int("group", 1);
    op.rank = rank;
    op.axis_from_end = rank - 2;
  }
  if (op.groups < 1 || w[0] % op.groups != 0) return false;
  op.output_major = op.kind == Kind::kConv || (op.kind == Kind::kGemm && node.attributes.Int("transB", 0) != 0);
  op.outputs = op.output_major ? w[0] : w[1] * op.groups;
  op.inputs = op.output_major ? w[1] * op.groups : w[0];
  return op.inputs > 0 && op.outputs > 0;
}

}  // namespace

std::optional<LinearOp> LinearAt(const PassContext& context, NodeId id) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(id);
  const auto kind = KindOf(node);
  if (!kind || context.opset() < 7 || node.inputs.size() < 2) return std::nullopt;
  const std::string label = graph.NodeLabel(id);
  if (HasReferences(node)) return context.Miss("{} takes attributes from the function it is in", label);
  LinearOp op;
  op.kind = *kind;
  op.id = id;
  op.x = node.inputs[0];
  op.weight = node.inputs[1];
  op.bias = *kind == Kind::kMatMul ? kNoValue : InputOf(node, 2);
  const Tensor* weight = ConstantOf(graph, op.weight);
  if (weight == nullptr) return context.Miss("the weight of {} is not constant", label);
  if (!InfoOf(weight->dtype()).is_float || InfoOf(weight->dtype()).bits < 16) {
    return context.Miss("the weight of {} is {}", label, NameOf(weight->dtype()));
  }
  if (!TakeChannels(node, weight->dims(), op)) {
    return context.Miss("the weight of {} is {}", label, ToString(weight->dims()));
  }
  if (*kind == Kind::kGemm) op.rank = 2;
  if (*kind == Kind::kMatMul) op.rank = RankOf(graph, op.x);
  op.transposed_x = *kind == Kind::kGemm && node.attributes.Int("transA", 0) != 0;
  return op;
}

std::optional<LinearOp> LinearMaking(const PassContext& context, ValueId value) {
  const Graph& graph = context.graph();
  const NodeId producer = ProducerOf(graph, value);
  if (producer == kNoNode || !KindOf(graph.node(producer))) return std::nullopt;
  if (!HasOneReader(graph, value)) {
    return context.Miss("what {} gives is read by others too", graph.NodeLabel(producer));
  }
  return LinearAt(context, producer);
}

bool IsRow(const Graph& graph, ValueId value, int64_t channels) {
  const Tensor* tensor = value == kNoValue ? nullptr : ConstantOf(graph, value);
  return tensor != nullptr && tensor->dtype() == DType::kFloat && tensor->size() == channels &&
         (tensor->rank() == 0 || tensor->dims().back() == channels);
}

bool HasNoPads(const Node& conv) {
  const std::string auto_pad = conv.attributes.String("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return true;
  const auto pads = conv.attributes.Ints("pads");
  return auto_pad == "NOTSET" && std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
}

}  // namespace quant
