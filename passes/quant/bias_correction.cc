#include "passes/quant/bias_correction.h"

#include <cmath>
#include <optional>

#include "libquant/ops/evaluate.h"
#include "passes/fusion/channel_affine.h"
#include "passes/fusion/linear_op.h"
#include "passes/match.h"

namespace quant {
namespace {

std::optional<LinearOp> LinearIn(const Model& model, NodeId id) {
  const PassOptions options;
  auto op = LinearAt(PassContext(model, model.graph, model.opsets, options), id);
  return op && !op->transposed_x ? op : std::nullopt;
}

// The weight of a node as the quantized model multiplies by it; nullopt when it is not dequantized right before.
StatusOr<std::optional<Tensor>> DequantizedWeight(const Model& model, const LinearOp& op) {
  const Graph& graph = model.graph;
  const NodeId id = ProducerOf(graph, graph.node(op.id).inputs[1]);
  if (id == kNoNode || !IsOp(graph.node(id), "DequantizeLinear")) return std::nullopt;
  const Node& node = graph.node(id);
  std::vector<Tensor> owned;
  for (const ValueId v : node.inputs) {
    const Tensor* constant = ConstantOf(graph, v);
    if (constant == nullptr) return std::nullopt;
    ASSIGN_OR_RETURN(owned.emplace_back(), constant->Materialize());
  }
  std::vector<const Tensor*> inputs;
  inputs.reserve(owned.size());
  for (const Tensor& tensor : owned) inputs.push_back(&tensor);
  ASSIGN_OR_RETURN(std::vector<Tensor> made,
                   EvaluateOp(*FindOp("", "DequantizeLinear"), node.attributes, model.OpsetOf(""), inputs, 1));
  return std::move(made[0]);
}

// The constant that is added to each output channel, and the node's input that it is.
struct BiasPlace {
  NodeId node = kNoNode;
  int32_t input = -1;
  ValueId bias = kNoValue;  // kNoValue: there is none yet
};

std::optional<BiasPlace> PlaceOf(const Graph& graph, const LinearOp& op) {
  if (op.kind != LinearOp::Kind::kMatMul) {
    if (op.bias != kNoValue && !IsRow(graph, op.bias, op.outputs)) return std::nullopt;
    return BiasPlace{op.id, 2, op.bias};
  }
  const NodeId add = OnlyReader(graph, OutputOf(graph.node(op.id), 0));
  if (add == kNoNode || !IsOp(graph.node(add), "Add")) return std::nullopt;
  const int32_t input = graph.node(add).inputs[0] == OutputOf(graph.node(op.id), 0) ? 1 : 0;
  const ValueId bias = graph.node(add).inputs[static_cast<size_t>(input)];
  if (!IsRow(graph, bias, op.outputs)) return std::nullopt;
  return BiasPlace{add, input, bias};
}

// What the rounding of the weight adds to the mean of each output channel.
std::vector<double> ShiftOf(const LinearOp& op, const Tensor& weight, const Tensor& rounded,
                            const std::vector<double>& means) {
  std::vector<double> shift(static_cast<size_t>(op.outputs), 0);
  const auto w = weight.data<float>(), r = rounded.data<float>();
  ForEachChannelPair(op, weight.dims(), [&](int64_t begin, int64_t end, size_t o, size_t i) {
    double error = 0;
    for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k) {
      error += static_cast<double>(r[k]) - static_cast<double>(w[k]);
    }
    shift[o] += error * means[i];
  });
  return shift;
}

Status PutBias(Graph& graph, const BiasPlace& place, const std::vector<double>& shift) {
  const auto count = static_cast<int64_t>(shift.size());
  Tensor before = Tensor::Of<float>({count}, std::vector<float>(shift.size(), 0));
  if (place.bias != kNoValue) {
    ASSIGN_OR_RETURN(before, graph.value(place.bias).constant->Materialize());
  }
  Tensor corrected = Tensor::Allocate(DType::kFloat, before.dims());
  const auto from = before.data<float>();
  const auto to = corrected.mutable_data<float>();
  for (size_t o = 0; o < shift.size(); ++o) to[o] = static_cast<float>(static_cast<double>(from[o]) - shift[o]);
  const std::string hint =
      place.bias == kNoValue ? graph.node(place.node).name + ".bias" : graph.value(place.bias).name;
  const ValueId made = graph.AddConstant(hint, std::move(corrected), graph.node(place.node).region);
  graph.SetInput(place.node, place.input, made);
  return OkStatus();
}

}  // namespace

std::vector<RangeWanted> MeansWanted(const Model& model, const IntegerPlan& plan) {
  std::vector<RangeWanted> wanted;
  for (const IntegerNode& n : plan.nodes) {
    const auto op = n.kind == IntegerNode::Kind::kWeighted ? LinearIn(model, n.node) : std::nullopt;
    if (op) wanted.push_back({model.graph.value(op->x).name, -1 - op->axis_from_end});
  }
  return wanted;
}

StatusOr<int> CorrectBiases(Model& model, const Model& quantized, const IntegerPlan& plan, const ChannelMeans& means) {
  int corrected = 0;
  for (const IntegerNode& n : plan.nodes) {
    const auto op = n.kind == IntegerNode::Kind::kWeighted ? LinearIn(model, n.node) : std::nullopt;
    const auto place = op ? PlaceOf(model.graph, *op) : std::nullopt;
    if (!place) continue;
    const auto mean = means.find(model.graph.value(op->x).name);
    if (mean == means.end() || mean->second.size() != static_cast<size_t>(op->inputs)) continue;
    ASSIGN_OR_RETURN(const Tensor weight, model.graph.value(op->weight).constant->Materialize());
    ASSIGN_OR_RETURN(const auto rounded, DequantizedWeight(quantized, *op));
    if (!rounded || rounded->dims() != weight.dims()) continue;
    const std::vector<double> shift = ShiftOf(*op, weight, *rounded, mean->second);
    RETURN_IF_ERROR(PutBias(model.graph, *place, shift));
    ++corrected;
  }
  model.graph.RemoveUnused();
  return corrected;
}

}  // namespace quant
