#include "passes/quant/channel_balance.h"

#include <algorithm>
#include <cmath>

#include "passes/quant/balance_sites.h"

namespace quant {
namespace {

constexpr int kMostSweeps = 20;
constexpr double kStill = 1.01;       // a factor within this of 1 changes nothing
constexpr double kMostFactor = 1024;  // what a channel may grow or shrink by at one site, beside the others'

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
