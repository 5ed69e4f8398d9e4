#include "passes/quant/integer_bias.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "libquant/numerics/weight_producer.h"
#include "libquant/ops/op_def.h"
#include "passes/match.h"

namespace quant {
namespace {

// Codes keep clear of the edge, so that sums that start from them have room.
constexpr double kMostCode = 2147483647.0 / 2;

struct Site {
  NodeId node = kNoNode;
  int32_t bias_input = -1;
  ValueId bias = kNoValue;
  NodeId dequantize = kNoNode;  // of the weight
  double input_scale = 1;
  Tensor values;
};

ValueId ScalesOf(const Graph& graph, NodeId dequantize) { return graph.node(dequantize).inputs[1]; }

StatusOr<std::vector<float>> FloatsOf(const Tensor& tensor) {
  ASSIGN_OR_RETURN(const Tensor made, tensor.Materialize());
  const auto values = made.data<float>();
  return std::vector<float>(values.begin(), values.end());
}

class BiasQuantizer {
 public:
  BiasQuantizer(Graph& graph, const IntegerPlan& plan, const ActivationScales& scales, std::vector<IntegerNote>& notes)
      : graph_(graph), plan_(plan), scales_(scales), notes_(notes) {}

  Status Run() {
    for (const IntegerNode& n : plan_.nodes) {
      if (n.kind == IntegerNode::Kind::kWeighted) RETURN_IF_ERROR(Find(n));
    }
    RETURN_IF_ERROR(Widen());
    for (const Site& site : sites_) RETURN_IF_ERROR(Emit(site));
    return OkStatus();
  }

 private:
  Status Find(const IntegerNode& n) {
    const Node& node = graph_.node(n.node);
    const auto& role = std::get<Weighted>(FindOp(node.domain, node.op_type)->role);
    if (role.bias < 0) return OkStatus();
    Site site;
    site.node = n.node;
    site.bias_input = role.bias;
    site.bias = InputOf(node, static_cast<size_t>(role.bias));
    if (site.bias == kNoValue) return OkStatus();
    const Tensor* bias = ConstantOf(graph_, site.bias);
    site.dequantize = ProducerOf(graph_, node.inputs[static_cast<size_t>(role.weight)]);
    if (site.dequantize == kNoNode || !IsOp(graph_.node(site.dequantize), "DequantizeLinear")) {
      return BugError("the weight of {} has no codes", graph_.NodeLabel(n.node));
    }
    const Tensor& weight_scales = *graph_.value(ScalesOf(graph_, site.dequantize)).constant;
    const int64_t count = weight_scales.rank() == 1 ? weight_scales.size() : bias == nullptr ? 0 : bias->size();
    if (bias == nullptr || bias->dtype() != DType::kFloat || bias->size() != count ||
        (bias->rank() > 0 && bias->dims().back() != count)) {
      notes_.push_back({n.node, "its bias stays float: it is not one constant number for each channel"});
      return OkStatus();
    }
    site.input_scale = scales_.at(node.inputs[static_cast<size_t>(role.activation)]).scale;
    ASSIGN_OR_RETURN(site.values, bias->Materialize());
    sites_.push_back(std::move(site));
    return OkStatus();
  }

  // Scales of weights that some bias needs wider.
  Status Widen() {
    std::map<NodeId, std::vector<float>> least;
    for (const Site& site : sites_) {
      auto& now = least[site.dequantize];
      if (now.empty()) {
        ASSIGN_OR_RETURN(now, FloatsOf(*graph_.value(ScalesOf(graph_, site.dequantize)).constant));
        before_[site.dequantize] = now;
      }
      const auto bias = site.values.data<float>();
      int widened = 0;
      for (size_t c = 0; c < bias.size(); ++c) {
        const double needed = std::fabs(static_cast<double>(bias[c])) / (site.input_scale * kMostCode);
        if (!std::isfinite(needed))
          return DataError("the bias of {} holds NaN or infinity", graph_.NodeLabel(site.node));
        float& scale = now[now.size() == 1 ? 0 : c];
        if (needed <= scale) continue;
        scale = std::nextafter(static_cast<float>(needed), std::numeric_limits<float>::infinity());
        ++widened;
      }
      if (widened > 0) {
        notes_.push_back({site.node, fmt::format("scales of {} {} were widened, so that the bias fits into int32",
                                                 widened, widened == 1 ? "channel" : "channels")});
      }
    }
    for (auto& [dequantize, now] : least) {
      if (now == before_[dequantize]) continue;
      const Node& node = graph_.node(dequantize);
      ASSIGN_OR_RETURN(const QuantizedWeight weight, WithLeastScales(*graph_.value(node.inputs[0]).constant, now));
      const Dims dims = graph_.value(node.inputs[0]).constant->dims();  // those of the kernel
      graph_.value(node.inputs[0]).constant = weight.codes.Reshaped(dims);
      graph_.value(node.inputs[1]).constant = weight.scales;
      if (node.inputs.size() > 2) graph_.value(node.inputs[2]).constant = weight.zero_points;
      before_[dequantize] = now;
    }
    return OkStatus();
  }

  Status Emit(const Site& site) {
    const std::vector<float>& weight_scales = before_[site.dequantize];
    const auto bias = site.values.data<float>();
    std::vector<float> scales;
    scales.reserve(weight_scales.size());
    for (const float s : weight_scales) scales.push_back(static_cast<float>(site.input_scale * static_cast<double>(s)));
    std::vector<int32_t> codes;
    codes.reserve(bias.size());
    for (size_t c = 0; c < bias.size(); ++c) {
      const double scale = scales[scales.size() == 1 ? 0 : c];
      codes.push_back(static_cast<int32_t>(std::nearbyint(static_cast<double>(bias[c]) / scale)));
    }
    const auto count = static_cast<int64_t>(codes.size());
    const bool by_channel = graph_.value(ScalesOf(graph_, site.dequantize)).constant->rank() == 1;
    const std::string name = graph_.value(site.bias).name;
    GraphEdit edit(site.node);
    GraphEdit::NewNode node{name + ".dequantize", "DequantizeLinear", "", {}, {}, {}};
    node.inputs.push_back(edit.AddConstant(name + ".codes", Tensor::Of<int32_t>({count}, codes)));
    node.inputs.push_back(edit.AddConstant(
        name + ".scales", by_channel ? Tensor::Of<float>({count}, scales) : Tensor::Scalar(scales[0])));
    if (by_channel) node.attributes.Set("axis", int64_t{0});
    edit.SetInput(site.node, site.bias_input, edit.AddNode(std::move(node), DType::kFloat, ShapeOf(Dims{count})));
    return edit.ApplyTo(graph_);
  }

  Graph& graph_;
  const IntegerPlan& plan_;
  const ActivationScales& scales_;
  std::vector<IntegerNote>& notes_;
  std::vector<Site> sites_;
  std::map<NodeId, std::vector<float>> before_;  // scales of weights, by their DequantizeLinear
};

}  // namespace

Status QuantizeBiases(Graph& graph, const IntegerPlan& plan, const ActivationScales& scales,
                      std::vector<IntegerNote>& notes) {
  return BiasQuantizer(graph, plan, scales, notes).Run();
}

}  // namespace quant
