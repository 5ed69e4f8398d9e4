// Quantizers as the target takes them, and nodes between them that it does not run in integers all the same.
#include <algorithm>
#include <optional>

#include "libquant/lint/rules.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr int kByteBits = 8;

bool IsQuantize(const Node& node) { return node.op_type == "QuantizeLinear"; }
bool IsDequantize(const Node& node) { return node.op_type == "DequantizeLinear"; }
bool IsClamp(const Node& node) { return node.op_type == "Relu" || node.op_type == "Clip"; }

// Null where it is left out or past the end.
const Value* ValueAt(const Graph& graph, const std::vector<ValueId>& ids, size_t i) {
  return i < ids.size() && ids[i] != kNoValue ? &graph.value(ids[i]) : nullptr;
}

// The node that dequantizes to this value, or null.
const Node* DequantizerOf(const Graph& graph, ValueId v) {
  const NodeId id = v == kNoValue ? kNoNode : graph.value(v).producer;
  return id != kNoNode && IsDequantize(graph.node(id)) ? &graph.node(id) : nullptr;
}

class IntegerChecker {
 public:
  IntegerChecker(const Graph& graph, const Target& target) : graph_(graph), target_(target), rules_(target.integer) {}

  void Run() {
    for (const NodeId id : graph_.AllNodes()) {
      const Node& node = graph_.node(id);
      if (IsQuantize(node) || IsDequantize(node)) {
        if (auto why = WhyRefused(node)) refused.push_back(graph_.NodeLabel(id) + ": " + *why);
      } else if (ReadsCodes(graph_, node)) {
        if (auto why = WhyUnfused(node)) unfused.push_back(graph_.NodeLabel(id) + ": " + *why);
      }
    }
  }

  std::vector<std::string> refused, unfused;

 private:
  static bool Among(const std::vector<std::string>& formats, DType dtype) {
    return std::find(formats.begin(), formats.end(), NameOf(dtype)) != formats.end();
  }

  std::optional<std::string> WhyRefused(const Node& node) const {
    const bool back = IsDequantize(node);
    const Value* codes = ValueAt(graph_, back ? node.inputs : node.outputs, 0);
    if (codes == nullptr || codes->dtype == DType::kUndefined) return std::nullopt;
    if (codes->dtype == DType::kInt32) {
      if (rules_.integer_bias) return std::nullopt;
      return fmt::format("{} takes biases as floats, not int32", target_.name);
    }
    const DTypeInfo& type = InfoOf(codes->dtype);
    if (type.is_float || type.bits < kByteBits) return std::nullopt;  // other rules know of them
    const bool constant = back && codes->constant.has_value();
    if (!Among(rules_.activations, codes->dtype) && !(constant && Among(rules_.weights, codes->dtype))) {
      return fmt::format("{} takes {} as {}, not {}", target_.name, constant ? "weights" : "activations",
                         fmt::join(constant ? rules_.weights : rules_.activations, ", "), type.name);
    }
    const Value* scale = ValueAt(graph_, node.inputs, 1);
    if (scale != nullptr && scale->constant && scale->constant->size() != 1) {
      if (!constant) return "an activation has one scale";
      if (!rules_.channel_scales) return fmt::format("{} takes one scale for a weight", target_.name);
    }
    if (!rules_.zero_points && type.is_signed && HasZeroPoint(node)) {
      return fmt::format("{} takes no zero points", target_.name);
    }
    return std::nullopt;
  }

  bool HasZeroPoint(const Node& node) const {
    const Value* zero = ValueAt(graph_, node.inputs, 2);
    if (zero == nullptr || !zero->constant) return false;
    const auto owned = zero->constant->Materialize();
    if (!owned.ok()) return false;
    const auto bytes = owned->bytes();
    return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
  }

  // For a node with an integer kernel: what of its surroundings keeps it from running in that.
  std::optional<std::string> WhyUnfused(const Node& node) const {
    if (!rules_.HasKernel(node.op_type) && !rules_.Moves(node.op_type)) return std::nullopt;
    const OpDef* op = FindOp(node.domain, node.op_type);
    const auto* role = op == nullptr ? nullptr : std::get_if<Weighted>(&op->role);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value* value = ValueAt(graph_, node.inputs, i);
      if (value == nullptr || value->dtype != DType::kFloat || DequantizerOf(graph_, node.inputs[i]) != nullptr)
        continue;
      if (role != nullptr && role->bias == static_cast<int>(i)) continue;
      // Scales of Resize and bounds of Clip are no data.
      if (value->constant && role == nullptr && i > 0 && (rules_.Moves(node.op_type) || value->constant->rank() == 0)) {
        continue;
      }
      return fmt::format("its input {} is float", value->name);
    }
    if (rules_.MayEndInFloat(node.op_type)) return std::nullopt;
    for (const ValueId made : node.outputs) {
      if (auto why = WhyFloat(made, true)) return why;
    }
    return std::nullopt;
  }

  // Why a value is not made codes right away, or behind one Relu or Clip.
  std::optional<std::string> WhyFloat(ValueId made, bool past_clamp) const {
    if (made == kNoValue) return std::nullopt;
    for (const Use& use : graph_.value(made).uses) {
      if (use.node == kNoNode) return "its output is an output of the model, as float";
      const Node& reader = graph_.node(use.node);
      if (IsQuantize(reader)) continue;
      if (!past_clamp || !IsClamp(reader) || reader.outputs.empty()) {
        return fmt::format("{} reads its output as float", graph_.NodeLabel(use.node));
      }
      if (auto why = WhyFloat(reader.outputs[0], false)) return why;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const Target& target_;
  const IntegerRules& rules_;
};

void Add(FindingId finding, std::string_view rest, std::vector<std::string>& where, std::vector<Finding>& out) {
  if (where.empty()) return;
  const std::string what = fmt::format("{} {}", Count(where.size(), "node"), rest);
  out.push_back(Finding::Of(finding, what, std::move(where)));
}

}  // namespace

bool ReadsCodes(const Graph& graph, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    const Node* maker = DequantizerOf(graph, v);
    const Value* codes = maker == nullptr ? nullptr : ValueAt(graph, maker->inputs, 0);
    return codes != nullptr && !codes->constant;
  });
}

void LintIntegers(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  if (!options.target.integer.any()) return;
  IntegerChecker checker(model.graph, options.target);
  checker.Run();
  const std::string& target = options.target.name;
  Add(FindingId::kTargetQuantizer, fmt::format("with quantizers of another form than {} takes", target),
      checker.refused, out);
  Add(FindingId::kTargetUnfused, fmt::format("between quantizers that {} runs in float", target), checker.unfused, out);
}

}  // namespace quant
