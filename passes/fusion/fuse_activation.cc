// An activation function goes into the Conv or Gemm before it, as com.microsoft has it.
//
//   x ─ Conv ─ f ─ z      =>      x ─ com.microsoft.FusedConv(f) ─ z
//   x ─ Gemm ─ f ─ z      =>      x ─ com.microsoft.FusedGemm(f) ─ z
//
// f is a function that ONNX Runtime's operator has (kFunctions). In float32, where the target has the operator; only f
// reads what the Conv or Gemm gives, and the bounds of a Clip are constant.
#include <algorithm>
#include <limits>

#include "passes/fusion/linear_op.h"
#include "passes/match.h"

namespace quant {
namespace {

// Bound i of a Clip, an attribute before opset 11.
std::optional<float> Bound(const PassContext& context, const Node& clip, std::string_view name, size_t i,
                           float otherwise) {
  if (context.opset() < 11) return clip.attributes.Float(name, otherwise);
  if (InputOf(clip, i) == kNoValue) return otherwise;
  const auto given = ScalarOf(context.graph(), clip.inputs[i]);
  return given ? std::optional(static_cast<float>(*given)) : std::nullopt;
}

// A function, and which operators have it.
struct Function {
  std::string_view op;
  bool conv, gemm;
};
constexpr Function kFunctions[] = {
    {"Relu", true, true},      {"Tanh", true, true},        {"Sigmoid", true, true}, {"Clip", true, false},
    {"LeakyRelu", true, true}, {"HardSigmoid", true, true}, {"Elu", false, true},    {"HardSwish", true, false},
    {"Softplus", false, true}, {"Softsign", false, true},
};

// The function's parameters, in the order of its own attributes.
std::optional<std::vector<float>> ParametersOf(const PassContext& context, const Node& f) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const Attributes& a = f.attributes;
  if (IsOp(f, "LeakyRelu")) return std::vector{a.Float("alpha", 0.01F)};
  if (IsOp(f, "Elu")) return std::vector{a.Float("alpha", 1)};
  if (IsOp(f, "HardSigmoid")) return std::vector{a.Float("alpha", 0.2F), a.Float("beta", 0.5F)};
  if (!IsOp(f, "Clip")) return std::vector<float>();
  const auto low = Bound(context, f, "min", 1, -kMost), high = Bound(context, f, "max", 2, kMost);
  if (!low || !high) return context.Miss("its bounds are not constant");
  return std::vector{*low, *high};
}

// As the fused operator spells them.
void SetParameters(bool conv, const std::vector<float>& parameters, Attributes& attributes) {
  if (parameters.empty()) return;
  if (conv) return attributes.Set("activation_params", parameters);
  attributes.Set("activation_alpha", parameters[0]);
  if (parameters.size() > 1) attributes.Set("activation_beta", parameters[1]);
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& f = graph.node(root);
  const ValueId y = InputOf(f, 0);
  const auto* function =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Function& row) { return IsOp(f, row.op); });
  if (function == std::end(kFunctions) || y == kNoValue || context.opset() < 7) return std::nullopt;
  const bool conv = MadeBy(graph, y, "Conv") != nullptr;
  if (!conv && MadeBy(graph, y, "Gemm") == nullptr) return std::nullopt;
  const NodeId before = ProducerOf(graph, y);
  const Node& node = graph.node(before);
  const std::string fused = conv ? "FusedConv" : "FusedGemm";
  if (!context.MayMake("com.microsoft", fused)) return context.Miss("the target has no com.microsoft.{}", fused);
  if (conv ? !function->conv : !function->gemm) return context.Miss("{} has no {}", fused, f.op_type);
  if (graph.value(y).dtype != DType::kFloat) return context.Miss("{} is for float32", fused);
  if (!HasOneReader(graph, y)) return context.Miss("what {} gives is read by others too", graph.NodeLabel(before));
  if (node.region != f.region) return context.Miss("{} lies outside of this body", graph.NodeLabel(before));
  if (HasReferences(node) || HasReferences(f)) return context.Miss("attributes are taken from the function");
  const auto parameters = ParametersOf(context, f);
  if (!parameters) return std::nullopt;
  GraphEdit::NewNode made = {.name_hint = "",
                             .op_type = fused,
                             .domain = "com.microsoft",
                             .inputs = {},
                             .outputs = {},
                             .attributes = node.attributes,
                             .name_of = before};
  for (ValueId v : node.inputs) made.inputs.push_back(ValueRef{v});
  made.attributes.Set("activation", f.op_type);
  SetParameters(conv, *parameters, made.attributes);
  GraphEdit edit(root);
  edit.ReplaceNode(root, std::move(made));
  return edit;
}

}  // namespace

const Pass& FuseActivationPass() {
  static const Pass pass = {
      .name = "fuse-activation",
      .summary = "An activation function goes into the Conv or Gemm before it, as FusedConv or FusedGemm",
      .roots = {"Relu", "Tanh", "Sigmoid", "Clip", "LeakyRelu", "HardSigmoid", "Elu", "HardSwish", "Softplus",
                "Softsign"},
      .rule = Fuse};
  return pass;
}

}  // namespace quant
