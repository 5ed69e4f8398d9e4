#include "passes/quant/channel_balance.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "passes/fusion/channel_affine.h"
#include "passes/fusion/fold_linear.h"
#include "passes/match.h"

namespace quant {
namespace {

constexpr int kMostSweeps = 20;
constexpr double kStill = 1.01;       // a factor within this of 1 changes nothing
constexpr double kMostFactor = 1024;  // what a channel may grow or shrink by at one site, beside the others'

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
      site.read_by.push_back({op->weight, std::move(op), false});
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
    if (op->bias != kNoValue && !TakeVector(site, op->bias)) return false;
    site.made_by.insert(site.made_by.begin(), {op->weight, std::move(op), true});
    site.linear_maker = true;
    return true;
  }

  bool TakeNorm(BalanceSite& site, const Node& node) const {
    const auto norm =
        std::find_if(kNorms.begin(), kNorms.end(), [&](const Norm& n) { return IsOp(node, n.domain, n.op_type); });
    if (norm == kNorms.end() || site.axis_from_end != 0 || node.attributes.Int("axis", -1) != -1) return false;
    if (!TakeVector(site, InputOf(node, norm->scale))) return false;
    const ValueId shift = norm->shift ? InputOf(node, *norm->shift) : kNoValue;
    return shift == kNoValue || TakeVector(site, shift);
  }

  // A constant of one number for each channel, along the last of its axes that is not 1.
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

// Calls f(first, last, channel) for the elements of a part.
template <typename F>
void ForEachChannel(const ChannelPart& part, const Dims& dims, int64_t channels, F&& f) {
  if (!part.op) {
    for (int64_t c = 0; c < channels; ++c) f(c, c + 1, static_cast<size_t>(c));
    return;
  }
  ForEachChannelPair(*part.op, dims,
                     [&](int64_t begin, int64_t end, size_t o, size_t i) { f(begin, end, part.outputs ? o : i); });
}

StatusOr<std::vector<double>> LargestOf(const Graph& graph, const std::vector<ChannelPart>& parts, int64_t channels) {
  std::vector<double> largest(static_cast<size_t>(channels), 0);
  for (const ChannelPart& part : parts) {
    ASSIGN_OR_RETURN(const Tensor tensor, graph.value(part.constant).constant->Materialize());
    const auto values = tensor.data<float>();
    ForEachChannel(part, tensor.dims(), channels, [&](int64_t begin, int64_t end, size_t c) {
      for (int64_t k = begin; k < end; ++k) {
        largest[c] = std::max(largest[c], std::fabs(static_cast<double>(values[static_cast<size_t>(k)])));
      }
    });
  }
  return largest;
}

// The part with each channel times its factor; nullopt when a number would not be finite.
StatusOr<std::optional<Tensor>> Scaled(const Graph& graph, const ChannelPart& part,
                                       const std::vector<double>& factors) {
  ASSIGN_OR_RETURN(const Tensor tensor, graph.value(part.constant).constant->Materialize());
  const auto values = tensor.data<float>();
  Tensor out = Tensor::Allocate(DType::kFloat, tensor.dims());
  const auto scaled = out.mutable_data<float>();
  bool finite = true;
  ForEachChannel(part, tensor.dims(), static_cast<int64_t>(factors.size()), [&](int64_t begin, int64_t end, size_t c) {
    for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k) {
      scaled[k] = static_cast<float>(static_cast<double>(values[k]) * factors[c]);
      finite = finite && std::isfinite(scaled[k]);
    }
  });
  return finite ? std::optional(std::move(out)) : std::nullopt;
}

// Factors around 1 that are not too far from each other; 1 for channels of which nothing is known. Of few bits, so that
// none depends on how a C library rounds a power.
void Tame(std::vector<double>& factors) {
  constexpr double kSteps = 512;  // of the mantissa
  const auto known = [](double f) { return std::isfinite(f) && f > 0; };
  double least = INFINITY, most = 0;
  for (const double f : factors) {
    if (!known(f)) continue;
    least = std::min(least, f);
    most = std::max(most, f);
  }
  const double middle = std::sqrt(least) * std::sqrt(most);
  for (double& f : factors) {
    f = known(f) ? std::clamp(f / middle, 1 / kMostFactor, kMostFactor) : 1;
    int exponent = 0;
    const double mantissa = std::frexp(f, &exponent);
    f = std::ldexp(std::nearbyint(mantissa * kSteps) / kSteps, exponent);
  }
}

// Divides the site's value by the factors. False when nothing moves, or a constant would not be finite.
StatusOr<bool> Apply(Graph& graph, const BalanceSite& site, const std::vector<double>& factors) {
  if (std::all_of(factors.begin(), factors.end(), [](double f) { return f < kStill && f > 1 / kStill; })) return false;
  std::vector<double> inverse(factors.size());
  std::transform(factors.begin(), factors.end(), inverse.begin(), [](double f) { return 1 / f; });
  std::vector<std::pair<ValueId, Tensor>> changed;
  const auto scale = [&](const std::vector<ChannelPart>& parts, const std::vector<double>& by) -> StatusOr<bool> {
    for (const ChannelPart& part : parts) {
      ASSIGN_OR_RETURN(auto tensor, Scaled(graph, part, by));
      if (!tensor) return false;
      changed.emplace_back(part.constant, *std::move(tensor));
    }
    return true;
  };
  ASSIGN_OR_RETURN(const bool made, scale(site.made_by, inverse));
  if (!made) return false;
  ASSIGN_OR_RETURN(const bool read, scale(site.read_by, factors));
  if (!read) return false;
  for (auto& [id, tensor] : changed) graph.value(id).constant = std::move(tensor);
  return true;
}

}  // namespace

std::vector<BalanceSite> FindBalanceSites(const Model& model) { return SiteFinder(model).Run(); }

StatusOr<int> EqualizeWeights(Model& model) {
  std::vector<BalanceSite> sites = FindBalanceSites(model);
  std::erase_if(sites, [](const BalanceSite& site) { return !site.linear_maker; });
  std::vector<bool> changed(sites.size(), false);
  bool moved = true;
  for (int sweep = 0; sweep < kMostSweeps && moved; ++sweep) {
    moved = false;
    for (size_t s = 0; s < sites.size(); ++s) {
      const BalanceSite& site = sites[s];
      ASSIGN_OR_RETURN(const auto first, LargestOf(model.graph, {site.made_by[0]}, site.channels));
      ASSIGN_OR_RETURN(const auto second, LargestOf(model.graph, site.read_by, site.channels));
      std::vector<double> factors(first.size());
      for (size_t c = 0; c < factors.size(); ++c) factors[c] = std::sqrt(first[c] / second[c]);
      Tame(factors);
      ASSIGN_OR_RETURN(const bool now, Apply(model.graph, site, factors));
      changed[s] = changed[s] || now;
      moved = moved || now;
    }
  }
  return static_cast<int>(std::count(changed.begin(), changed.end(), true));
}

StatusOr<int> BalanceActivations(Model& model, const ValueRanges& ranges, double alpha) {
  int changed = 0;
  for (const BalanceSite& site : FindBalanceSites(model)) {
    const auto range = ranges.find(model.graph.value(site.value).name);
    if (range == ranges.end()) continue;
    const std::vector<float>& reach = range->second.channel_absmax;
    if (reach.size() != static_cast<size_t>(site.channels)) continue;
    ASSIGN_OR_RETURN(const auto weights, LargestOf(model.graph, site.read_by, site.channels));
    std::vector<double> factors(reach.size());
    for (size_t c = 0; c < factors.size(); ++c) {
      factors[c] = reach[c] > 0 && weights[c] > 0
                       ? std::pow(static_cast<double>(reach[c]), alpha) / std::pow(weights[c], 1 - alpha)
                       : 0;
    }
    Tame(factors);
    ASSIGN_OR_RETURN(const bool now, Apply(model.graph, site, factors));
    changed += now ? 1 : 0;
  }
  return changed;
}

std::vector<RangeWanted> ChannelsWanted(const Model& model) {
  std::vector<RangeWanted> wanted;
  for (const BalanceSite& site : FindBalanceSites(model)) {
    wanted.push_back({model.graph.value(site.value).name, -1 - site.axis_from_end});
  }
  return wanted;
}

}  // namespace quant
