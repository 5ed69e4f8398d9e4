#include "passes/quant/balance_sites.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "passes/fusion/channel_affine.h"
#include "passes/match.h"

namespace quant {
namespace {

// Normalizations whose result is scaled, and shifted, by one constant for each channel of the last axis.
struct Norm {
  std::string_view domain, op_type;
  size_t scale;
  std::optional<size_t> shift;
};
constexpr std::array kNorms = {
    Norm{"", "LayerNormalization", 1, 2},
    Norm{"", "RMSNormalization", 1, std::nullopt},
    Norm{"", "SimplifiedLayerNormalization", 1, std::nullopt},
    Norm{"com.microsoft", "SkipLayerNormalization", 2, 3},
    Norm{"com.microsoft", "SkipSimplifiedLayerNormalization", 2, std::nullopt},
};

// x * f comes out as y * f, channel by channel.
bool PassesFactors(const Node& node, int64_t axis_from_end) {
  for (const char* op : {"Relu", "LeakyRelu", "Identity"}) {
    if (IsOp(node, op)) return true;
  }
  // Channels are not among the axes that are pooled where a convolution reads them.
  if (axis_from_end == 0) return false;
  for (const char* op : {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}) {
    if (IsOp(node, op)) return OutputOf(node, 1) == kNoValue;
  }
  return false;
}

class SiteFinder {
 public:
  explicit SiteFinder(const Model& model) : graph_(model.graph), context_(model, model.graph, model.opsets, options_) {}

  std::vector<BalanceSite> Run() {
    std::vector<BalanceSite> sites;
    for (const NodeId id : graph_.main().nodes) {
      for (const ValueId v : graph_.node(id).outputs) {
        BalanceSite site;
        site.value = v;
        if (v != kNoValue && TakeReaders(site) && TakeMakers(site)) sites.push_back(std::move(site));
      }
    }
    return sites;
  }

 private:
  bool IsOwn(ValueId constant) const {
    const Tensor* tensor = ConstantOf(graph_, constant);
    return tensor != nullptr && tensor->dtype() == DType::kFloat && HasOneReader(graph_, constant);
  }

  bool TakeReaders(BalanceSite& site) const {
    const Value& value = graph_.value(site.value);
    if (value.dtype != DType::kFloat || value.uses.empty() || IsRegionOutput(graph_, site.value)) return false;
    for (const Use& use : value.uses) {
      if (use.index != 0 || use.region != kMainRegion) return false;
      auto op = LinearAt(context_, use.node);
      if (!op || op->transposed_x || !IsOwn(op->weight)) return false;
      if (site.channels == 0) {
        site.channels = op->inputs;
        site.axis_from_end = op->axis_from_end;
      }
      if (op->inputs != site.channels || op->axis_from_end != site.axis_from_end) return false;
      site.read_by.push_back({op->weight, op, false});
    }
    return true;
  }

  bool TakeMakers(BalanceSite& site) const {
    ValueId v = site.value;
    while (true) {
      const NodeId id = ProducerOf(graph_, v);
      if (id == kNoNode) return false;
      const Node& node = graph_.node(id);
      if (node.region != kMainRegion || OutputOf(node, 0) != v) return false;
      if (TakeLinear(site, id) || TakeNorm(site, node)) return true;
      const ValueId x = PassesFactors(node, site.axis_from_end) ? node.inputs[0] : TakeOperand(site, node);
      if (x == kNoValue) return false;
      if (IsOp(node, "Mul")) return true;
      if (!HasOneReader(graph_, x)) return false;
      v = x;
    }
  }

  bool TakeLinear(BalanceSite& site, NodeId id) const {
    auto op = LinearAt(context_, id);
    if (!op || op->outputs != site.channels || op->axis_from_end != site.axis_from_end || !IsOwn(op->weight)) {
      return false;
    }
    if (op->bias != kNoValue && !(IsRow(graph_, op->bias, site.channels) && TakeVector(site, op->bias))) return false;
    site.made_by.insert(site.made_by.begin(), {op->weight, op, true});
    site.linear_maker = true;
    return true;
  }

  bool TakeNorm(BalanceSite& site, const Node& node) const {
    const auto norm =
        std::find_if(kNorms.begin(), kNorms.end(), [&](const Norm& n) { return IsOp(node, n.domain, n.op_type); });
    if (norm == kNorms.end() || site.axis_from_end != 0 || node.attributes.Int("axis", -1) != -1) return false;
    const auto take = [&](ValueId v) { return IsRow(graph_, v, site.channels) && TakeVector(site, v); };
    if (!take(InputOf(node, norm->scale))) return false;
    const ValueId shift = norm->shift ? InputOf(node, *norm->shift) : kNoValue;
    return shift == kNoValue || take(shift);
  }

  // A constant of one number for each channel.
  bool TakeVector(BalanceSite& site, ValueId constant) const {
    if (constant == kNoValue || !IsOwn(constant) || ConstantOf(graph_, constant)->size() != site.channels) return false;
    site.made_by.push_back({constant, std::nullopt, false});
    return true;
  }

  // What a Mul or Add with such a constant reads besides; kNoValue when it is something else.
  ValueId TakeOperand(BalanceSite& site, const Node& node) const {
    const bool mul = IsOp(node, "Mul");
    if (!mul && !IsOp(node, "Add") && !IsOp(node, "Sub")) return kNoValue;
    const ValueId x = VariableOperand(graph_, node);
    if (x == kNoValue) return kNoValue;
    const ValueId constant = node.inputs[node.inputs[0] == x ? 1 : 0];
    const Dims& dims = ConstantOf(graph_, constant)->dims();
    const auto axis = static_cast<int64_t>(dims.size()) - 1 - site.axis_from_end;
    if (axis < 0 || dims[static_cast<size_t>(axis)] != site.channels) return kNoValue;
    return TakeVector(site, constant) ? x : kNoValue;
  }

  const Graph& graph_;
  const PassOptions options_;
  const PassContext context_;
};

}  // namespace

std::vector<BalanceSite> FindBalanceSites(const Model& model) { return SiteFinder(model).Run(); }

}  // namespace quant
