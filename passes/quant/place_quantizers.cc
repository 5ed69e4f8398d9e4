#include "passes/quant/place_quantizers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "libquant/numerics/format.h"
#include "passes/match.h"

namespace quant {
namespace {

// A code of the format as a tensor of its type.
Tensor CodeTensor(const Format& format, Dims dims, std::span<const int32_t> codes) {
  Tensor out = Tensor::Allocate(format.dtype, std::move(dims));
  const auto bytes = out.mutable_bytes();
  const auto width = static_cast<size_t>(format.bits / 8);
  // Little-endian, two's complement: the low bytes of the number.
  for (size_t i = 0; i < codes.size(); ++i) std::memcpy(bytes.data() + i * width, &codes[i], width);
  return out;
}

// Bounds that a Relu or Clip puts on its input; nullopt when they are not known.
std::optional<std::pair<double, double>> BoundsOf(const Graph& graph, const Node& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (IsOp(node, "Relu")) return std::pair(0.0, kInfinity);
  const auto bound = [&](const char* attribute, size_t input, double otherwise) -> std::optional<double> {
    if (node.attributes.Has(attribute)) return node.attributes.Float(attribute, 0);
    const ValueId v = InputOf(node, input);
    return v == kNoValue ? otherwise : ScalarOf(graph, v);
  };
  const auto low = bound("min", 1, -kInfinity), high = bound("max", 2, kInfinity);
  if (!low || !high || *low > *high) return std::nullopt;
  return std::pair(*low, *high);
}

// Quantizing saturates at the bounds or within: bounding before changes no code.
bool SaturatesWithin(const Format& format, ScaleZero sz, std::pair<double, double> bounds) {
  const auto code = [&](double x) {
    return static_cast<double>(std::nearbyint(static_cast<float>(x) / sz.scale)) + sz.zero_point;
  };
  return code(bounds.first) <= format.qmin && code(bounds.second) >= format.qmax;
}

class Placer {
 public:
  Placer(Model& model, const IntegerPlan& plan, const QuantizeOptions& options, const ActivationScales& scales)
      : graph_(model.graph),
        plan_(plan),
        options_(options),
        scales_(scales),
        format_(*FindFormat(options.activations)),
        as_codes_(plan.as_codes.begin(), plan.as_codes.end()) {
    for (size_t i = 0; i < graph_.main().nodes.size(); ++i) place_[graph_.main().nodes[i]] = i;
    for (const IntegerNode& n : plan.nodes) {
      for (const int32_t i : n.inputs) reads_codes_.insert({n.node, i});
    }
  }

  StatusOr<PlacedQuantizers> Run() {
    if (options_.target.integer.integer_bias) {
      RETURN_IF_ERROR(QuantizeBiases(graph_, plan_, scales_, placed_.notes));
    }
    for (const IntegerNode& n : plan_.nodes) {
      RETURN_IF_ERROR(Absorb(n));
      for (const int32_t i : n.constants) RETURN_IF_ERROR(QuantizeConstant(n.node, i));
    }
    for (const ValueId v : plan_.quantized) RETURN_IF_ERROR(Quantize(v));
    RETURN_IF_ERROR(graph_.SortTopologically());
    if (options_.integer_io) RETURN_IF_ERROR(MakePortsInteger());
    graph_.RemoveUnused();
    placed_.quantized = static_cast<int64_t>(plan_.quantized.size());
    return std::move(placed_);
  }

 private:
  Status Absorb(const IntegerNode& n) {
    if (n.absorbed == kNoNode || n.float_output || !options_.target.integer.absorb_clamps) return OkStatus();
    const Node& clamp = graph_.node(n.absorbed);
    const auto bounds = BoundsOf(graph_, clamp);
    const ScaleZero sz = scales_.at(n.made);
    if (!bounds || !SaturatesWithin(format_, sz, *bounds)) {
      placed_.notes.push_back(
          {n.node, fmt::format("{} behind it stays: its quantizer does not saturate where it does", clamp.op_type)});
      return OkStatus();
    }
    // The node makes the clamp's value itself.
    const ValueId before = graph_.node(n.node).outputs[0];
    const std::string name = graph_.value(n.made).name;
    GraphEdit edit(n.absorbed);
    edit.Replace(n.made, ValueRef::Of(before));
    edit.Remove(n.absorbed);
    RETURN_IF_ERROR(edit.ApplyTo(graph_));
    // A graph output's name is handed over by the edit.
    if (graph_.value(before).name != name) std::swap(graph_.value(before).name, graph_.value(n.made).name);
    moved_[n.made] = before;
    ++placed_.absorbed;
    return OkStatus();
  }

  // A float operand in codes of its own range.
  Status QuantizeConstant(NodeId reader, int32_t input) {
    const ValueId v = graph_.node(reader).inputs[static_cast<size_t>(input)];
    ASSIGN_OR_RETURN(const Tensor values, graph_.value(v).constant->Materialize());
    RangeStats range;
    range.Add(values.data<float>());
    const StatusOr<ScaleZero> sz = ChooseScale(ActivationSpec(options_), range, values.data<float>());
    if (!sz.ok()) return Status(sz.status().code(), fmt::format("{}: {}", graph_.value(v).name, Message(sz.status())));
    std::vector<int32_t> codes(static_cast<size_t>(values.size()));
    QuantizeValues(format_, *sz, values.data<float>(), codes);
    GraphEdit edit(reader);
    const std::string name = graph_.value(v).name;
    const ValueRef tensor = edit.AddConstant(name + ".codes", CodeTensor(format_, values.dims(), codes));
    edit.SetInput(reader, input, AddDequantize(edit, name, tensor, *sz, ShapeOf(values.dims())));
    return edit.ApplyTo(graph_);
  }

  std::pair<ValueRef, ValueRef> AddParameters(GraphEdit& edit, const std::string& name, ScaleZero sz) const {
    const ValueRef scale = edit.AddConstant(name + ".scale", Tensor::Scalar(sz.scale));
    return {scale, edit.AddConstant(name + ".zero_point", CodeTensor(format_, {}, std::span(&sz.zero_point, 1)))};
  }

  ValueRef AddDequantize(GraphEdit& edit, const std::string& name, ValueRef codes, ScaleZero sz,
                         std::optional<Shape> shape) const {
    const auto [scale, zero] = AddParameters(edit, name, sz);
    GraphEdit::NewNode node{name + ".dequantize", "DequantizeLinear", "", {codes, scale, zero}, {}, {}};
    return edit.AddNode(std::move(node), DType::kFloat, std::move(shape));
  }

  Status Quantize(ValueId planned) {
    const auto moved = moved_.find(planned);
    const ValueId v = moved == moved_.end() ? planned : moved->second;
    const bool made_as_codes = as_codes_.contains(planned);
    const Value value = graph_.value(v);
    const NodeId anchor = AnchorOf(v);
    if (anchor == kNoNode) return OkStatus();  // nobody reads it and no node makes it
    GraphEdit edit(anchor);
    const std::string name = value.name;
    const ScaleZero sz = scales_.at(planned);
    const auto [scale, zero] = AddParameters(edit, name, sz);
    GraphEdit::NewNode quantize{name + ".quantize", "QuantizeLinear", "", {ValueRef::Of(v), scale, zero}, {}, {}};
    const ValueRef codes = edit.AddNode(std::move(quantize), format_.dtype, value.shape);
    GraphEdit::NewNode dequantize{name + ".dequantize", "DequantizeLinear", "", {codes, scale, zero}, {}, {}};
    const ValueRef back = edit.AddNode(std::move(dequantize), DType::kFloat, value.shape);
    if (made_as_codes) {
      edit.Replace(v, back);
    } else {
      for (const Use& use : value.uses) {
        if (reads_codes_.contains({use.node, use.index})) edit.SetInput(use.node, use.index, back);
      }
    }
    std::vector<ValueId> made;
    RETURN_IF_ERROR(edit.ApplyTo(graph_, &made));
    const ValueId codes_id = made[static_cast<size_t>(codes.made)];
    // The edit handed all readers of the value to what is dequantized, its own quantizer too.
    if (made_as_codes) graph_.SetInput(graph_.value(codes_id).producer, 0, v);
    return OkStatus();
  }

  // A node of the main graph to put the pair before; where it makes no difference, as the graph is sorted in the end.
  NodeId AnchorOf(ValueId v) const {
    const NodeId producer = graph_.value(v).producer;
    if (producer != kNoNode) return producer;
    NodeId first = kNoNode;
    for (const Use& use : graph_.value(v).uses) {
      const auto found = place_.find(use.node);
      if (found != place_.end() && (first == kNoNode || found->second < place_.at(first))) first = use.node;
    }
    return first;
  }

  // Inputs that only quantizers read, and outputs that are dequantized codes, hold the codes themselves.
  Status MakePortsInteger() {
    for (const ValueId input : std::vector<ValueId>(graph_.main().inputs)) {
      Value& value = graph_.value(input);
      if (value.uses.size() != 1 || value.dtype != DType::kFloat || value.uses[0].node == kNoNode) continue;
      const NodeId quantize = value.uses[0].node;
      if (!IsOp(graph_.node(quantize), "QuantizeLinear") || value.uses[0].index != 0) continue;
      const ValueId codes = graph_.node(quantize).outputs[0];
      ASSIGN_OR_RETURN(const ScaleZero sz, ParametersOf(quantize));
      value.dtype = format_.dtype;
      graph_.ReplaceUses(codes, input);
      graph_.RemoveNode(quantize);
      placed_.ports.push_back({value.name, true, sz});
    }
    const std::vector<ValueId> outputs = graph_.main().outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const NodeId dequantize = ProducerOf(graph_, outputs[i]);
      if (dequantize == kNoNode || !IsOp(graph_.node(dequantize), "DequantizeLinear")) continue;
      const ValueId codes = graph_.node(dequantize).inputs[0];
      if (ProducerOf(graph_, codes) == kNoNode || IsRegionOutput(graph_, codes)) continue;
      ASSIGN_OR_RETURN(const ScaleZero sz, ParametersOf(dequantize));
      graph_.SetOutput(kMainRegion, static_cast<int32_t>(i), codes);
      std::swap(graph_.value(codes).name, graph_.value(outputs[i]).name);
      placed_.ports.push_back({graph_.value(codes).name, false, sz});
    }
    return OkStatus();
  }

  StatusOr<ScaleZero> ParametersOf(NodeId quantizer) const {
    const Node& node = graph_.node(quantizer);
    ASSIGN_OR_RETURN(const Tensor scale, graph_.value(node.inputs[1]).constant->Materialize());
    ASSIGN_OR_RETURN(const Tensor zero, graph_.value(node.inputs[2]).constant->Materialize());
    int32_t zero_point = 0;
    std::memcpy(&zero_point, zero.bytes().data(), zero.bytes().size());
    if (format_.is_signed) zero_point = zero_point << (32 - format_.bits) >> (32 - format_.bits);
    return ScaleZero{scale.data<float>()[0], zero_point};
  }

  Graph& graph_;
  const IntegerPlan& plan_;
  const QuantizeOptions& options_;
  const ActivationScales& scales_;
  const Format& format_;
  const std::set<ValueId> as_codes_;
  std::map<NodeId, size_t> place_;
  std::set<std::pair<NodeId, int32_t>> reads_codes_;
  std::map<ValueId, ValueId> moved_;  // a clamp's value to the one that stands for it now
  PlacedQuantizers placed_;
};

}  // namespace

StatusOr<PlacedQuantizers> PlaceQuantizers(Model& model, const IntegerPlan& plan, const QuantizeOptions& options,
                                           const ActivationScales& scales) {
  return Placer(model, plan, options, scales).Run();
}

}  // namespace quant
