// Quantizers as the target takes them, and nodes between them that it does not run in integers all the same.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "libquant/lint/rules.h"
#include "libquant/numerics/format.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr int kByteBits = 8;

bool IsQuantize(const Node& node) { return node.op_type == "QuantizeLinear"; }
bool IsDequantize(const Node& node) { return node.op_type == "DequantizeLinear"; }

class IntegerChecker {
 public:
  IntegerChecker(const Graph& graph, const Target& target) : graph_(graph), target_(target), rules_(target.integer) {}

  void Run() {
    for (const NodeId id : graph_.AllNodes()) {
      const Node& node = graph_.node(id);
      if (node.inputs.empty() || node.outputs.empty()) continue;
      if (IsQuantize(node) || IsDequantize(node)) {
        CheckQuantizer(id);
      } else if (ReadsCodes(node)) {
        CheckFusion(id);
      }
    }
  }

  std::vector<std::string> refused, unfused, saturating;

 private:
  const Value* ValueAt(const std::vector<ValueId>& ids, size_t i) const {
    return i < ids.size() && ids[i] != kNoValue ? &graph_.value(ids[i]) : nullptr;
  }
  const Node* ProducerOf(ValueId v) const {
    const NodeId id = v == kNoValue ? kNoNode : graph_.value(v).producer;
    return id == kNoNode ? nullptr : &graph_.node(id);
  }
  bool IsConstant(ValueId v) const { return v != kNoValue && graph_.value(v).constant.has_value(); }
  bool IsDequantized(ValueId v) const {
    const Node* maker = ProducerOf(v);
    return maker != nullptr && IsDequantize(*maker);
  }
  // It was codes that depend on the model's inputs.
  bool IsDequantizedActivation(ValueId v) const { return IsDequantized(v) && !IsConstant(ProducerOf(v)->inputs[0]); }
  bool ReadsCodes(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return IsDequantizedActivation(v); });
  }
  static bool Among(const std::vector<std::string>& formats, const Format& format) {
    return std::find(formats.begin(), formats.end(), format.name) != formats.end();
  }

  void Refuse(NodeId id, const std::string& why) { refused.push_back(graph_.NodeLabel(id) + ": " + why); }

  void CheckQuantizer(NodeId id) {
    const Node& node = graph_.node(id);
    const bool constant = IsDequantize(node) && IsConstant(node.inputs[0]);
    const Value& codes = graph_.value(IsDequantize(node) ? node.inputs[0] : node.outputs[0]);
    if (codes.dtype == DType::kUndefined) return;
    if (codes.dtype == DType::kInt32) {
      if (!rules_.integer_bias) Refuse(id, fmt::format("{} takes biases as floats, not int32", target_.name));
      return;
    }
    const Format* format = FindFormat(codes.dtype);
    if (format == nullptr || format->bits < kByteBits) return;  // other rules know of them
    if (constant ? !Among(rules_.weights, *format) && !Among(rules_.activations, *format)
                 : !Among(rules_.activations, *format)) {
      return Refuse(id, fmt::format("{} takes {} as {}, not {}", target_.name, constant ? "weights" : "activations",
                                    fmt::join(constant ? rules_.weights : rules_.activations, ", "), format->name));
    }
    const Value* scale = ValueAt(node.inputs, 1);
    const bool one_scale = scale == nullptr || !scale->constant || scale->constant->size() == 1;
    if (!constant && !one_scale) return Refuse(id, "an activation has one scale");
    if (constant && !one_scale && !rules_.channel_scales) {
      return Refuse(id, fmt::format("{} takes one scale for a weight", target_.name));
    }
    if (!rules_.zero_points && format->is_signed && HasZeroPoint(node)) {
      return Refuse(id, fmt::format("{} takes no zero points", target_.name));
    }
    if (constant && format->is_signed && format->bits == kByteBits && ReaderRunsInIntegers(node)) {
      NoteSaturation(id, *codes.constant);
    }
  }

  bool HasZeroPoint(const Node& node) const {
    const Value* zero = ValueAt(node.inputs, 2);
    if (zero == nullptr || !zero->constant) return false;
    const auto owned = zero->constant->Materialize();
    if (!owned.ok()) return false;
    const auto bytes = owned->bytes();
    return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
  }

  bool ReaderRunsInIntegers(const Node& dequantize) const {
    const auto& uses = graph_.value(dequantize.outputs[0]).uses;
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Use& use) { return use.node != kNoNode && ReadsCodes(graph_.node(use.node)); });
  }

  // Codes of weights that are yet to be made are not looked at: whoever makes them keeps to the rules.
  void NoteSaturation(NodeId id, const Tensor& codes) {
    if (rules_.most_signed_code == 0 || (!codes.is_owned() && codes.file_range() == nullptr)) return;
    const auto owned = codes.Materialize();
    if (!owned.ok()) return;
    const auto values = owned->data<int8_t>();
    int most = 0;
    for (const int8_t code : values) most = std::max(most, std::abs(static_cast<int>(code)));
    if (most > rules_.most_signed_code) {
      saturating.push_back(fmt::format("{}: codes up to {}", graph_.NodeLabel(id), most));
    }
  }

  // A node with an integer kernel that some, not all, of its surroundings keep from running in it.
  void CheckFusion(NodeId id) {
    const Node& node = graph_.node(id);
    if (!rules_.HasKernel(node.op_type) && !rules_.Moves(node.op_type)) return;
    const OpDef* op = FindOp(node.domain, node.op_type);
    const auto* role = op == nullptr ? nullptr : std::get_if<Weighted>(&op->role);
    const auto say = [&](const std::string& why) { unfused.push_back(graph_.NodeLabel(id) + ": " + why); };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue || graph_.value(v).dtype != DType::kFloat || IsDequantized(v)) continue;
      const bool bias = role != nullptr && role->bias == static_cast<int>(i);
      if (bias || (IsConstant(v) && rules_.Moves(node.op_type))) continue;
      // Scales of Resize, bounds of Clip: no data.
      if (IsConstant(v) && role == nullptr && i > 0 && graph_.value(v).constant->rank() == 0) continue;
      return say(fmt::format("its input {} is float", graph_.value(v).name));
    }
    if (rules_.MayEndInFloat(node.op_type)) return;
    for (const ValueId made : node.outputs) {
      if (made == kNoValue) continue;
      const auto why = WhyFloat(made);
      if (why) return say(*why);
    }
  }

  // Why what is made is not codes right away, a Relu or Clip in between aside.
  std::optional<std::string> WhyFloat(ValueId made) const {
    const Value& value = graph_.value(made);
    for (const Use& use : value.uses) {
      if (use.node == kNoNode) return "its output is an output of the model, as float";
      const Node& reader = graph_.node(use.node);
      if (IsQuantize(reader)) continue;
      if (reader.op_type == "Relu" || reader.op_type == "Clip") {
        const auto why = WhyFloat(reader.outputs[0]);
        if (!why) continue;
        return why;
      }
      return fmt::format("{} reads its output as float", graph_.NodeLabel(use.node));
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const Target& target_;
  const IntegerRules& rules_;
};

void Add(FindingId finding, std::string_view rest, std::vector<std::string>& where, std::vector<Finding>& out) {
  if (where.empty()) return;
  out.push_back(Finding::Of(finding, fmt::format("{} {}", Count(where.size(), "node"), rest), std::move(where)));
}

}  // namespace

void LintIntegers(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  if (!options.target.integer.any()) return;
  IntegerChecker checker(model.graph, options.target);
  checker.Run();
  const std::string& target = options.target.name;
  Add(FindingId::kTargetQuantizer, fmt::format("with quantizers of another form than {} takes", target),
      checker.refused, out);
  Add(FindingId::kTargetUnfused, fmt::format("between quantizers that {} runs in float", target), checker.unfused, out);
  Add(FindingId::kTargetSaturation, "with weights of all 8 bits", checker.saturating, out);
}

}  // namespace quant
