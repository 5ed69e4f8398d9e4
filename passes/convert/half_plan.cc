#include "passes/convert/half_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "libquant/ops/op_def.h"
#include "passes/convert/body_ports.h"
#include "passes/quant/name_patterns.h"

namespace quant {
namespace {

// Constants up to this size are looked into.
constexpr int64_t kMaxChecked = 65536;  // elements
// Power of what rounding adds to a constant over its own: 45 dB. Numbers that float16 has lose 1e-7 or so; those near
// and below its least lose all.
constexpr double kMostWeightNoise = 3.2e-5;

// Make numbers by themselves, of a type that an attribute names.
const std::set<std::string>& NumberSources() {
  static const std::set<std::string> names = {"Bernoulli",     "BlackmanWindow",   "EyeLike",      "HammingWindow",
                                              "HannWindow",    "MelWeightMatrix",  "RandomNormal", "RandomNormalLike",
                                              "RandomUniform", "RandomUniformLike"};
  return names;
}

// Through these, numbers computed from integers stay such.
const std::set<std::string>& Arithmetic() {
  static const std::set<std::string> names = {
      "Abs",   "Add",     "Ceil",     "Clip",  "Concat",     "Div",       "Exp",   "Expand",
      "Floor", "Gather",  "Identity", "Log",   "MatMul",     "Max",       "Min",   "Mod",
      "Mul",   "Neg",     "Pow",      "Range", "Reciprocal", "Reshape",   "Round", "Slice",
      "Sqrt",  "Squeeze", "Sub",      "Tile",  "Transpose",  "Unsqueeze", "Where"};
  return names;
}

// Inputs whose precision counts more than the tensor's: coordinates, scales, statistics. Only where their type may
// differ from the first input's.
bool IsSideInput(const Node& node, size_t i) {
  const std::string& op = node.op_type;
  if (op == "Resize" || op == "GridSample") return i > 0;
  return op == "BatchNormalization" && i > 0;
}

bool IsInteger(DType dtype) { return dtype != DType::kUndefined && !InfoOf(dtype).is_float && dtype != DType::kString; }

class Planner {
 public:
  Planner(const Model& model, const HalfOptions& options) : model_(model), graph_(model.graph), options_(options) {
    plan_.nodes.resize(static_cast<size_t>(graph_.node_count()));
  }

  StatusOr<HalfPlan> Run() {
    RETURN_IF_ERROR(FindReasons());
    FindCounts();
    KeepCounts();
    const std::vector<NodeId> order = graph_.AllNodes();
    for (NodeId n : order) KeepSums(n);
    for (NodeId n : order) Decide(n);
    // Inner bodies first: what they give decides about those around them.
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (HasBodies(*it)) DecidePorts(*it);
    }
    return std::move(plan_);
  }

 private:
  HalfNodePlan& plan(NodeId n) { return plan_.nodes[static_cast<size_t>(n)]; }
  bool HasBodies(NodeId n) const { return !BodiesOf(graph_.node(n)).empty(); }
  std::vector<BodyPort> PortsOf(NodeId n) const {
    return BodyPortsOf(graph_, n, model_.OpsetOf("")).value_or(std::vector<BodyPort>());
  }
  bool IsFloat(ValueId v) const { return DTypeOfValue(graph_, v) == DType::kFloat; }
  bool TouchesFloat(const Node& node) const {
    const auto is_float = [&](ValueId v) { return IsFloat(v); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_float) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is_float);
  }

  const std::optional<Signature>& SignatureFor(const Node& node) {
    const auto key = std::make_pair(node.domain, node.op_type);
    const auto found = signatures_.find(key);
    if (found != signatures_.end()) return found->second;
    return signatures_[key] = SignatureOf(node.domain, node.op_type, model_.OpsetOf(node.domain));
  }

  Status FindReasons() {
    ASSIGN_OR_RETURN(NamePatterns patterns, NamePatterns::Compile("--keep", options_.keep));
    const std::set<std::string> keep_ops(options_.keep_ops.begin(), options_.keep_ops.end());
    std::set<std::string> seen;
    std::vector<std::string> names;
    for (NodeId n : graph_.AllNodes()) {
      const Node& node = graph_.node(n);
      if (!node.name.empty()) names.push_back(node.name);
      seen.insert(node.op_type);
      const std::string* pattern = patterns.Match({node.name});
      if (node.op_type == "Constant" || !TouchesFloat(node)) continue;
      plan(n).kept = pattern != nullptr                ? fmt::format("--keep {}", *pattern)
                     : keep_ops.contains(node.op_type) ? fmt::format("--keep-op {}", node.op_type)
                                                       : Reason(node);
      if (plan(n).kept.empty()) plan(n).kept = MakerReason(node);
    }
    for (const std::string& op : keep_ops) {
      if (!seen.contains(op)) return UsageError("--keep-op {}: the model has no such operator", op);
    }
    return patterns.CheckAllMatched("node", "named nodes", names);
  }

  std::string MakerReason(const Node& node) const {
    for (ValueId v : node.outputs) {
      const auto it = v == kNoValue ? options_.keep_makers.end() : options_.keep_makers.find(graph_.value(v).name);
      if (it != options_.keep_makers.end()) return it->second;
    }
    return "";
  }

  // Why a node stays float32 whatever is around it.
  std::string Reason(const Node& node) {
    if (!BodiesOf(node).empty()) return "";  // DecidePorts
    if (KeptOperators().contains(node.op_type)) return "needs float32's range or precision";
    if (NumberSources().contains(node.op_type)) return "makes its own numbers";
    const OpDef* def = FindOp(node.domain, node.op_type);
    if (def != nullptr && std::holds_alternative<Quantizer>(def->role)) return "scales stay float32";
    if (!SignatureFor(node)) return "an operator whose types are not known";
    const auto unknown = [&](ValueId v) { return v != kNoValue && DTypeOfValue(graph_, v) == DType::kUndefined; };
    if (std::any_of(node.inputs.begin(), node.inputs.end(), unknown) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), unknown)) {
      return "it has values that are no tensors of a known type";
    }
    for (ValueId v : node.inputs) {
      const std::string lost = LostConstant(v);
      if (!lost.empty()) return lost;
    }
    return "";
  }

  // Why float16 can't stand for a small constant: an epsilon that becomes 0, statistics or coefficients beyond its
  // range. A single number beyond it (a mask's -1e9) saturates instead.
  std::string LostConstant(ValueId v) const {
    if (v == kNoValue || options_.type != DType::kFloat16) return "";
    const Value& value = graph_.value(v);
    if (!value.constant || value.constant->dtype() != DType::kFloat || value.constant->size() > kMaxChecked) return "";
    const auto tensor = value.constant->Materialize();
    if (!tensor.ok()) return "";  // the writer says what is wrong with it
    const auto data = tensor->data<float>();
    if (data.size() == 1) {
      const bool lost = data[0] != 0.0f && static_cast<float>(float16(data[0])) == 0.0f;
      return lost ? fmt::format("its constant {} would become 0", data[0]) : "";
    }
    double signal = 0, noise = 0;
    for (const float x : data) {
      const double lost = x - static_cast<double>(static_cast<float>(float16(x)));
      signal += static_cast<double>(x) * x;
      if (std::isfinite(lost)) noise += lost * lost;
    }
    if (noise > kMostWeightNoise * signal) return fmt::format("{} is too small for float16", value.name);
    const auto beyond = [](float x) { return std::isfinite(x) && !std::isfinite(static_cast<float>(float16(x))); };
    if (std::none_of(data.begin(), data.end(), beyond)) return "";
    return fmt::format("{} has values beyond 65504", value.name);
  }

  // Floats that are computed from integers alone: lengths, positions, masks.
  void FindCounts() {
    counts_.assign(static_cast<size_t>(graph_.value_count()), false);
    for (NodeId n : graph_.AllNodes()) {
      const Node& node = graph_.node(n);
      if (node.outputs.empty() || node.outputs[0] == kNoValue || !IsFloat(node.outputs[0])) continue;
      bool any = node.op_type == "Range", all = true;
      if (node.op_type == "Cast") {
        any = IsInteger(DTypeOfValue(graph_, node.inputs.at(0))) || IsCount(node.inputs.at(0));
      } else if (!Arithmetic().contains(node.op_type)) {
        continue;
      }
      for (ValueId v : node.inputs) {
        if (!IsFloat(v) || graph_.value(v).constant) continue;
        any = any || IsCount(v);
        all = all && IsCount(v);
      }
      counts_[static_cast<size_t>(node.outputs[0])] = any && all;
    }
  }
  bool IsCount(ValueId v) const { return v != kNoValue && counts_[static_cast<size_t>(v)]; }

  // Where a count is read as float32, all that it is made of stays float32: rounding it on the way would make other
  // sizes or positions.
  void KeepCounts() {
    std::vector<NodeId> order = graph_.AllNodes();
    for (NodeId n : order) {
      for (RegionId r : BodiesOf(graph_.node(n))) {
        for (ValueId v : graph_.region(r).outputs) KeepCount(v, n);
      }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (node.op_type == "Constant") continue;
      const bool to_integer = node.op_type == "Cast" && !node.outputs.empty() && node.outputs[0] != kNoValue &&
                              IsInteger(graph_.value(node.outputs[0]).dtype);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool half = plan(*it).kept.empty() && !to_integer && !HasBodies(*it) && MayBeHalf(node, i, true);
        if (!half) KeepCount(node.inputs[i], *it);
      }
    }
  }
  void KeepCount(ValueId v, NodeId reader) {
    if (!IsCount(v) || graph_.value(v).producer == kNoNode) return;
    std::string& why = plan(graph_.value(v).producer).kept;
    if (why.empty()) why = fmt::format("makes numbers that {} reads as float32", graph_.NodeLabel(reader));
  }

  // The node that adds to what a Loop or Scan carries from run to run: in half every run would round the sum again.
  NodeId AdderOf(const BodyPort& port) const {
    if (!port.carried) return kNoNode;
    const auto [in_region, in] = port.body_inputs.at(0);
    const auto [out_region, out] = port.body_outputs.at(0);
    const NodeId n = graph_.value(graph_.region(out_region).outputs[out]).producer;
    if (n == kNoNode) return kNoNode;
    const Node& node = graph_.node(n);
    if (node.op_type != "Add" && node.op_type != "Sub" && node.op_type != "Sum") return kNoNode;
    const ValueId before = graph_.region(in_region).inputs[in];
    return std::find(node.inputs.begin(), node.inputs.end(), before) == node.inputs.end() ? kNoNode : n;
  }
  void KeepSums(NodeId n) {
    for (const BodyPort& port : PortsOf(n)) {
      const NodeId adder = AdderOf(port);
      if (adder != kNoNode && TouchesFloat(graph_.node(adder)) && plan(adder).kept.empty()) {
        plan(adder).kept = fmt::format("adds to what {} carries from run to run", graph_.NodeLabel(n));
      }
    }
  }

  // Whether the schema has half for an input or output, leaving side inputs out.
  bool MayBeHalf(const Node& node, size_t i, bool input) {
    if (node.op_type == "BitCast") return false;  // it reads the bits of float32
    const std::optional<Signature>& signature = SignatureFor(node);
    if (!signature) return false;
    const FormalType* formal = input ? signature->Input(i) : signature->Output(i);
    if (formal == nullptr || formal->fixed || !formal->Takes(options_.type)) return false;
    if (!input || !IsSideInput(node, i)) return true;
    return formal->variable == signature->inputs[0].variable;
  }

  void Decide(NodeId n) {
    const Node& node = graph_.node(n);
    HalfNodePlan& out = plan(n);
    if (node.op_type == "Constant") {
      out.outputs.assign(node.outputs.size(), HalfArg::kAny);
      return;
    }
    const bool agnostic = node.op_type == "Cast" || node.op_type == "Shape" || node.op_type == "Size";
    // A Cast from half gives what its readers take: those that become half read behind it.
    const bool widens = node.op_type == "Cast" && DTypeOfValue(graph_, node.inputs.at(0)) == options_.type;
    const auto arg = [&](ValueId v, size_t i, bool input) {
      if (!IsFloat(v) || (agnostic && input)) return HalfArg::kAny;
      if (widens || HasBodies(n)) return HalfArg::kFloat;
      return out.kept.empty() && MayBeHalf(node, i, input) ? HalfArg::kHalf : HalfArg::kFloat;
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) out.inputs.push_back(arg(node.inputs[i], i, true));
    for (size_t i = 0; i < node.outputs.size(); ++i) out.outputs.push_back(arg(node.outputs[i], i, false));
    if (!TouchesFloat(node) || !out.kept.empty() || HasBodies(n)) return;
    const auto is_half = [](HalfArg a) { return a == HalfArg::kHalf; };
    out.half = std::any_of(out.inputs.begin(), out.inputs.end(), is_half) ||
               std::any_of(out.outputs.begin(), out.outputs.end(), is_half);
    if (!out.half && !agnostic) {
      out.kept = fmt::format("opset {} has no {} for it", model_.OpsetOf(node.domain), NameOf(options_.type));
    }
  }

  // Whether a body may give this value as half: a half node makes it, or it has no type of its own yet.
  bool ComesHalf(ValueId v) {
    const Value& value = graph_.value(v);
    if (value.constant) return true;
    if (value.producer == kNoNode) return plan_.body_inputs.contains(v);
    const HalfNodePlan& from = plan(value.producer);
    const auto i = static_cast<size_t>(value.output_index);
    return i < from.outputs.size() && from.outputs[i] == HalfArg::kHalf;
  }
  // Whether every node that reads the value takes half. Region outputs follow.
  bool ReadAsHalf(ValueId v) {
    return std::all_of(graph_.value(v).uses.begin(), graph_.value(v).uses.end(), [&](const Use& use) {
      if (use.node == kNoNode) return true;
      const HalfArg wanted = plan(use.node).inputs[static_cast<size_t>(use.index)];
      return wanted != HalfArg::kFloat;
    });
  }

  // Why what goes through a port stays float32; empty when it becomes half.
  std::string WhyFloat(NodeId n, const BodyPort& port) {
    const std::vector<ValueId> values = ValuesOf(graph_, n, port);
    if (!std::all_of(values.begin(), values.end(), [&](ValueId v) { return IsFloat(v); })) {
      return "not all of its values are known to be float32";
    }
    if (std::any_of(values.begin(), values.end(), [&](ValueId v) { return IsCount(v); })) {
      return "it is a number computed from integers";
    }
    if (AdderOf(port) != kNoNode) return "it is a sum carried from run to run";
    for (ValueId v : values) {
      const std::string lost = LostConstant(v);
      if (!lost.empty()) return lost;
    }
    for (const auto& [r, i] : port.body_outputs) {
      const ValueId v = graph_.region(r).outputs[i];
      const bool passed = port.carried && v == graph_.region(r).inputs[port.body_inputs[0].second];
      if (!passed && !ComesHalf(v)) return fmt::format("{} is float32 in its body", graph_.value(v).name);
    }
    if (port.body_outputs.empty() || port.carried) {
      const auto [r, i] = port.body_inputs.at(0);
      const ValueId v = graph_.region(r).inputs[i];
      if (!ReadAsHalf(v)) return fmt::format("{} is read as float32 in its body", graph_.value(v).name);
    }
    return "";
  }

  // What goes through a port becomes half when all of its values are float32, each body gives half anyway, and what
  // runs get is read as half. Casts would make any other choice as sound, but only more of them.
  void DecidePorts(NodeId n) {
    const Node& node = graph_.node(n);
    HalfNodePlan& out = plan(n);
    if (!out.kept.empty()) return;
    const auto ports = BodyPortsOf(graph_, n, model_.OpsetOf(""));
    if (!ports && TouchesFloat(node)) out.kept = "what goes in and out of its bodies stays float32";
    std::vector<std::string> reasons;
    for (const BodyPort& port : ports.value_or(std::vector<BodyPort>())) {
      const std::vector<ValueId> values = ValuesOf(graph_, n, port);
      if (std::none_of(values.begin(), values.end(), [&](ValueId v) { return IsFloat(v); })) continue;
      const std::string why = WhyFloat(n, port);
      if (!why.empty()) {
        const ValueId named =
            port.output && node.outputs[*port.output] != kNoValue ? node.outputs[*port.output] : values[0];
        reasons.push_back(fmt::format("{}: {}", graph_.value(named).name, why));
        continue;
      }
      out.half = true;
      if (port.input) out.inputs[*port.input] = HalfArg::kHalf;
      if (port.output && node.outputs[*port.output] != kNoValue) out.outputs[*port.output] = HalfArg::kHalf;
      for (const auto& [r, i] : port.body_inputs) plan_.body_inputs.insert(graph_.region(r).inputs[i]);
      for (const auto& [r, i] : port.body_outputs) plan_.body_outputs.emplace(r, static_cast<int32_t>(i));
    }
    if (!reasons.empty()) out.kept = fmt::format("{}", fmt::join(reasons, "; "));
  }

  const Model& model_;
  const Graph& graph_;
  const HalfOptions& options_;
  HalfPlan plan_;
  std::vector<bool> counts_;
  std::map<std::pair<std::string, std::string>, std::optional<Signature>> signatures_;
};

}  // namespace

const std::set<std::string>& KeptOperators() {
  static const std::set<std::string> names = {"Cos",
                                              "CumProd",
                                              "CumSum",
                                              "DFT",
                                              "Exp",
                                              "GroupNormalization",
                                              "InstanceNormalization",
                                              "LayerNormalization",
                                              "Log",
                                              "LogSoftmax",
                                              "LpNormalization",
                                              "MeanVarianceNormalization",
                                              "NonMaxSuppression",
                                              "Pow",
                                              "RMSNormalization",
                                              "Range",
                                              "Reciprocal",
                                              "ReduceL1",
                                              "ReduceL2",
                                              "ReduceLogSum",
                                              "ReduceLogSumExp",
                                              "ReduceMean",
                                              "ReduceProd",
                                              "ReduceSum",
                                              "ReduceSumSquare",
                                              "RoiAlign",
                                              "STFT",
                                              "SimplifiedLayerNormalization",
                                              "Sin",
                                              "SkipLayerNormalization",
                                              "SkipSimplifiedLayerNormalization",
                                              "Softmax",
                                              "Sqrt"};
  return names;
}

StatusOr<HalfPlan> PlanHalf(const Model& model, const HalfOptions& options) { return Planner(model, options).Run(); }

}  // namespace quant
