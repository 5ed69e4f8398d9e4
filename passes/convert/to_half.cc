#include "passes/convert/to_half.h"

#include <algorithm>
#include <map>

#include "libquant/model/check.h"
#include "libquant/model/inline_functions.h"
#include "libquant/model/opset.h"
#include "libquant/model/type_clashes.h"
#include "passes/convert/cancel_casts.h"

namespace quant {
namespace {

// Constants up to this size are rounded at once.
constexpr int64_t kSmall = 1024;  // elements

class NullSink : public ByteSink {
 public:
  Status Write(int64_t /*offset*/, std::span<const std::byte> /*bytes*/) override { return OkStatus(); }
};

class HalfConverter {
 public:
  HalfConverter(Model& model, HalfPlan plan, const HalfOptions& options, HalfReport& report)
      : graph_(model.graph), plan_(std::move(plan)), options_(options), report_(report) {
    values_ = graph_.value_count();
  }

  Status Run() {
    native_half_.assign(static_cast<size_t>(values_), false);
    for (NodeId n : graph_.AllNodes()) {
      const HalfNodePlan& plan = plan_.nodes[static_cast<size_t>(n)];
      report_.half_nodes += plan.half;
      if (!plan.kept.empty()) report_.kept.push_back({graph_.NodeLabel(n), graph_.node(n).op_type, plan.kept});
    }
    RETURN_IF_ERROR(SetTypes());
    for (ValueId v = 0; v < values_; ++v) {
      const Value& value = graph_.value(v);
      if (value.removed) continue;
      if (IsWeight(v)) {
        RETURN_IF_ERROR(ServeConstant(v));
      } else if (value.dtype == DType::kFloat || native_half_[static_cast<size_t>(v)]) {
        RETURN_IF_ERROR(ServeValue(v));
      }
    }
    return OkStatus();
  }

 private:
  // One that is listed among the graph's inputs as well can only change as a whole.
  bool IsWeight(ValueId v) const {
    const Value& value = graph_.value(v);
    if (!value.constant || value.constant->dtype() != DType::kFloat) return false;
    const auto wants_half = [&](const Use& use) { return use.node != kNoNode && Wanted(use) == HalfArg::kHalf; };
    return !value.is_input || (value.is_initializer && std::all_of(value.uses.begin(), value.uses.end(), wants_half));
  }

  // Values that half nodes make, and graph inputs when they become half.
  Status SetTypes() {
    for (NodeId n : graph_.AllNodes()) {
      Node& node = graph_.node(n);
      const HalfNodePlan& plan = plan_.nodes[static_cast<size_t>(n)];
      for (size_t i = 0; i < plan.outputs.size(); ++i) {
        if (plan.outputs[i] != HalfArg::kHalf) continue;
        graph_.value(node.outputs[i]).dtype = options_.type;
        native_half_[static_cast<size_t>(node.outputs[i])] = true;
      }
      if (plan.half && !plan.outputs.empty() && plan.outputs[0] == HalfArg::kHalf)
        RETURN_IF_ERROR(MendAttributes(node));
    }
    for (ValueId v : plan_.body_inputs) {
      graph_.value(v).dtype = options_.type;
      native_half_[static_cast<size_t>(v)] = true;
    }
    if (!options_.io_half) return OkStatus();
    for (ValueId v : graph_.main().inputs) {
      if (graph_.value(v).dtype != DType::kFloat || graph_.value(v).constant) continue;
      graph_.value(v).dtype = options_.type;
      native_half_[static_cast<size_t>(v)] = true;
    }
    return OkStatus();
  }

  // Attributes that say what type the output has.
  Status MendAttributes(Node& node) {
    if (node.op_type == "Cast") node.attributes.Set("to", static_cast<int64_t>(options_.type));
    if (node.op_type != "ConstantOfShape") return OkStatus();
    const float zero = 0;
    const Tensor* given = node.attributes.TensorOrNull("value");
    const Tensor value = given != nullptr ? *given : Tensor::Of<float>({1}, std::span(&zero, 1));
    const auto losses = std::make_shared<HalfLosses>();
    ASSIGN_OR_RETURN(Tensor half, SaturatedHalfTensor(options_.type, value, losses).Materialize());
    node.attributes.Set("value", std::move(half));
    return OkStatus();
  }

  // What a reader of a float32 value wants now.
  HalfArg Wanted(const Use& use) const {
    if (use.node != kNoNode) return plan_.nodes[static_cast<size_t>(use.node)].inputs[static_cast<size_t>(use.index)];
    if (use.region != kMainRegion) {
      return plan_.body_outputs.contains({use.region, use.index}) ? HalfArg::kHalf : HalfArg::kFloat;
    }
    return options_.io_half ? HalfArg::kHalf : HalfArg::kFloat;
  }

  void Rewire(const Use& use, ValueId to) {
    if (use.node == kNoNode) {
      graph_.SetOutput(use.region, use.index, to);
    } else {
      graph_.SetInput(use.node, use.index, to);
    }
  }

  Status ServeConstant(ValueId v) {
    std::vector<Use> readers;
    for (const Use& use : graph_.value(v).uses) {
      const bool of_main = use.node == kNoNode && use.region == kMainRegion;
      if (!of_main && Wanted(use) == HalfArg::kHalf) readers.push_back(use);
    }
    if (readers.empty()) return OkStatus();
    const std::string name = graph_.value(v).name;
    HalfReport::Weight weight{name, {}, std::make_shared<HalfLosses>()};
    weight.half = SaturatedHalfTensor(options_.type, *graph_.value(v).constant, weight.losses);
    if (weight.half.size() <= kSmall) {
      ASSIGN_OR_RETURN(weight.half, weight.half.Materialize());
    }
    report_.weights.push_back(weight);
    Value& value = graph_.value(v);
    if (value.is_initializer && readers.size() == value.uses.size()) {
      value.constant = weight.half;
      value.dtype = options_.type;
      return OkStatus();
    }
    const ValueId half = graph_.AddConstant(name + ".half", weight.half, value.region);
    for (const Use& use : readers) Rewire(use, half);
    return OkStatus();
  }

  // One Cast for all readers that want the other type.
  Status ServeValue(ValueId v) {
    const bool is_half = native_half_[static_cast<size_t>(v)];
    std::vector<Use> others;
    bool names_output = false;
    for (const Use& use : graph_.value(v).uses) {
      const HalfArg wanted = Wanted(use);
      if (wanted == HalfArg::kAny || (wanted == HalfArg::kHalf) == is_half) continue;
      others.push_back(use);
      names_output = names_output || (use.node == kNoNode && use.region == kMainRegion);
    }
    if (others.empty()) return OkStatus();
    const ValueId cast = AddCast(v, is_half ? DType::kFloat : options_.type, names_output);
    for (const Use& use : others) Rewire(use, cast);
    if (!names_output) return OkStatus();
    if (graph_.value(v).producer == kNoNode) {
      return Unsupported("output {} is an input as well, which --io-half cannot make one type", graph_.value(v).name);
    }
    std::swap(graph_.value(v).name, graph_.value(cast).name);
    std::swap(graph_.value(v).info_extra, graph_.value(cast).info_extra);
    std::swap(graph_.value(v).has_info, graph_.value(cast).has_info);
    return OkStatus();
  }

  // Behind the value's producer, or at the front of its region. `swaps`: it will take over the value's name and leave
  // it its own.
  ValueId AddCast(ValueId v, DType to, bool swaps) {
    const Value& from = graph_.value(v);
    const NodeId producer = from.producer;
    Value made;
    made.name = graph_.FreshName(from.name + ((to == DType::kFloat) != swaps ? ".float" : ".half"));
    made.dtype = to;
    made.shape = from.shape;
    made.region = from.region;
    Node cast;
    cast.name = graph_.FreshName(from.name + ".cast");
    cast.op_type = "Cast";
    cast.region = from.region;
    cast.inputs = {v};
    const ValueId out = graph_.AddValue(std::move(made));
    cast.outputs = {out};
    cast.attributes.Set("to", static_cast<int64_t>(to));
    const RegionId region = cast.region;
    const NodeId id = graph_.AddNode(std::move(cast));
    auto& order = graph_.region(region).nodes;
    order.pop_back();
    const auto at = producer == kNoNode ? order.begin() : std::find(order.begin(), order.end(), producer) + 1;
    order.insert(at, id);
    return out;
  }

  Graph& graph_;
  HalfPlan plan_;
  const HalfOptions& options_;
  HalfReport& report_;
  ValueId values_ = 0;
  std::vector<bool> native_half_;
};

}  // namespace

StatusOr<HalfReport> ConvertToHalf(Model& model, const HalfOptions& options) {
  // What has to be half depends on types; where a file's contradict each other there is no telling.
  const std::vector<TypeClash> clashes = TypeClashes(model);
  if (!clashes.empty()) {
    return DataError("the model's element types contradict each other: {}", clashes[0].what);
  }
  if (!model.functions.empty()) {
    RETURN_IF_ERROR(InlineFunctions(model));
    RETURN_IF_ERROR(InferShapes(model));
  }
  if (model.OpsetOf("") < 7) return Unsupported("the model is of opset {}; --opset raises it", model.OpsetOf(""));
  RaiseIrVersion(model, 4);
  HalfReport report;
  ASSIGN_OR_RETURN(HalfPlan plan, PlanHalf(model, options));
  RETURN_IF_ERROR(HalfConverter(model, std::move(plan), options, report).Run());
  CancelCasts(model.graph);
  model.graph.RemoveUnused();
  for (NodeId n : model.graph.AllNodes()) {
    const Node& node = model.graph.node(n);
    if (node.op_type != "Cast") continue;
    const DType from = DTypeOfValue(model.graph, node.inputs.at(0)), to = model.graph.value(node.outputs.at(0)).dtype;
    report.casts += (from == DType::kFloat && to == options.type) || (from == options.type && to == DType::kFloat);
  }
  RETURN_IF_ERROR(Verify(model.graph));
  RETURN_IF_ERROR(InferShapes(model));
  return report;
}

Status CountLosses(HalfReport& report) {
  for (const HalfReport::Weight& weight : report.weights) {
    if (weight.losses->counted || weight.half.deferred() == nullptr) continue;
    NullSink sink;
    ByteSink* const sinks[] = {&sink};
    RETURN_IF_ERROR(weight.half.deferred()->producer->Produce(sinks));
  }
  return OkStatus();
}

}  // namespace quant
