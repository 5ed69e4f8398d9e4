#include "libquant/verify/layers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "libquant/report/as_double.h"

namespace quant {
namespace {

constexpr int kBins = 40;
constexpr int64_t kPiece = 1 << 16;

bool IsComparedType(DType dtype) { return dtype == DType::kUndefined || InfoOf(dtype).is_float; }
bool IsSmallInteger(DType dtype) {
  const DTypeInfo& type = InfoOf(dtype);
  return !type.is_float && dtype != DType::kBool && type.bits > 1 && type.bits <= 16;
}

// Calls body(node, value) for what the graph's nodes make, in order.
template <typename Body>
void ForMade(const Graph& graph, const Body& body) {
  for (NodeId n : graph.AllNodes()) {
    for (ValueId v : graph.node(n).outputs) {
      if (v != kNoValue && !graph.value(v).constant) body(n, graph.value(v));
    }
  }
}

// Calls body for each pair of elements, a piece at a time.
template <typename Body>
Status ForPairs(const OutputMetrics::Elements& reference, const Tensor& got, const Body& body) {
  std::vector<double> ours(static_cast<size_t>(std::min(kPiece, got.size()))), theirs(ours.size());
  for (int64_t at = 0; at < got.size(); at += kPiece) {
    const auto count = static_cast<size_t>(std::min(kPiece, got.size() - at));
    RETURN_IF_ERROR(reference.read(at, std::span(ours).first(count)));
    RETURN_IF_ERROR(ReadAsDouble(got, at, std::span(theirs).first(count)));
    for (size_t i = 0; i < count; ++i) {
      if (std::isfinite(ours[i]) && std::isfinite(theirs[i])) body(ours[i], theirs[i]);
    }
  }
  return OkStatus();
}

size_t BinOf(double value, double low, double high) {
  if (!(high > low)) return 0;
  const double place = (value - low) / (high - low) * kBins;
  return static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)));
}

}  // namespace

StatusOr<std::unique_ptr<LayerCollector>> LayerCollector::Make(const Model& reference, const Model& candidate) {
  ASSIGN_OR_RETURN(std::unique_ptr<TensorSpill> spill, TensorSpill::Create());
  std::unique_ptr<LayerCollector> out(new LayerCollector(std::move(spill)));
  std::set<std::string> theirs;
  ForMade(candidate.graph, [&](NodeId, const Value& value) {
    if (IsComparedType(value.dtype)) theirs.insert(value.name);
  });
  const Graph& graph = reference.graph;
  ForMade(graph, [&](NodeId n, const Value& value) {
    if (!IsComparedType(value.dtype)) return;
    ++out->reference_values_;
    if (!theirs.contains(value.name) || out->places_.contains(value.name)) return;
    out->places_[value.name] = out->layers_.size();
    DiffLayer layer;
    layer.name = value.name;
    layer.node = graph.NodeLabel(n);
    layer.op_type = graph.node(n).op_type;
    out->layers_.push_back({std::move(layer), {}, 0});
  });
  ForMade(candidate.graph, [&](NodeId, const Value& value) {
    if (IsSmallInteger(value.dtype) && out->integers_.emplace(value.name, OutputMetrics()).second) {
      out->integer_order_.push_back(value.name);
    }
  });
  return out;
}

bool LayerCollector::Watched(const std::string& name) const {
  return bins_.empty() ? places_.contains(name) : bins_.contains(name);
}

RunHooks LayerCollector::ReferenceHooks() {
  RunHooks hooks;
  hooks.chosen = [this](const std::string& name) { return Watched(name); };
  hooks.probe = [this](const std::string& name, const Tensor& tensor) { return SeeReference(name, tensor); };
  return hooks;
}

RunHooks LayerCollector::CandidateHooks() {
  RunHooks hooks;
  hooks.chosen = [this](const std::string& name) {
    return Watched(name) || (bins_.empty() && integers_.contains(name));
  };
  hooks.probe = [this](const std::string& name, const Tensor& tensor) { return SeeCandidate(name, tensor); };
  return hooks;
}

Status LayerCollector::SeeReference(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined() || !InfoOf(tensor.dtype()).is_float) return OkStatus();
  Layer& layer = layers_[places_.at(name)];
  layer.diff.dtype = tensor.dtype();
  ASSIGN_OR_RETURN(TensorSpill::Place place, spill_->Put(tensor));
  layer.waiting.push_back(std::move(place));
  return OkStatus();
}

Status LayerCollector::SeeCandidate(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined()) return OkStatus();
  if (IsSmallInteger(tensor.dtype())) {
    const auto it = integers_.find(name);
    return it == integers_.end() ? OkStatus() : it->second.Add(tensor, tensor);
  }
  const auto place = places_.find(name);
  if (place == places_.end() || !InfoOf(tensor.dtype()).is_float) return OkStatus();
  Layer& layer = layers_[place->second];
  if (layer.taken >= layer.waiting.size()) return OkStatus();  // the reference made it less often
  const TensorSpill::Place& wanted = layer.waiting[layer.taken++];
  if (wanted.dims != tensor.dims()) return OkStatus();  // of the same name, but another thing
  const OutputMetrics::Elements reference = {wanted.dtype, wanted.dims,
                                             [this, &wanted](int64_t begin, std::span<double> out) -> Status {
                                               const auto count = static_cast<int64_t>(out.size());
                                               ASSIGN_OR_RETURN(const Tensor piece, spill_->Get(wanted, begin, count));
                                               return ReadAsDouble(piece, 0, out);
                                             }};
  if (!bins_.empty()) return AddToBins(bins_.at(name), reference, tensor);
  return WithContext(layer.diff.metrics.Add(reference, tensor), "value '" + name + "'");
}

Status LayerCollector::EndSample() {
  for (Layer& layer : layers_) {
    layer.waiting.clear();
    layer.taken = 0;
  }
  spill_->Clear();
  if (!bins_.empty()) ++ranges_known_;
  return OkStatus();
}

LayerDiff LayerCollector::Finish() {
  LayerDiff out;
  out.reference_values = reference_values_;
  for (const Layer& layer : layers_) {
    if (layer.diff.metrics.elements() > 0) out.layers.push_back(layer.diff);
  }
  for (const std::string& name : integer_order_) {
    const auto part = integers_.at(name).saturated();
    if (part) out.saturated.emplace_back(name, *part);
  }
  return out;
}

void LayerCollector::BeginHistograms(size_t count) {
  std::vector<const Layer*> order;
  for (const Layer& layer : layers_) {
    if (layer.diff.metrics.elements() > 0 && layer.diff.metrics.max_abs() > 0) order.push_back(&layer);
  }
  std::stable_sort(order.begin(), order.end(), [](const Layer* a, const Layer* b) {
    return a->diff.metrics.sqnr_db() < b->diff.metrics.sqnr_db();
  });
  for (size_t i = 0; i < std::min(count, order.size()); ++i) {
    bins_[order[i]->diff.name] = {};
    bin_order_.push_back(order[i]->diff.name);
  }
  ranges_known_ = bins_.empty() ? 2 : -1;
}

Status LayerCollector::AddToBins(Bins& bins, const OutputMetrics::Elements& reference, const Tensor& got) const {
  if (ranges_known_ < 0) {
    return ForPairs(reference, got, [&](double ours, double theirs) {
      if (!bins.any) bins.low = bins.high = ours;
      bins.any = true;
      bins.low = std::min({bins.low, ours, theirs});
      bins.high = std::max({bins.high, ours, theirs});
      bins.error = std::max(bins.error, std::abs(ours - theirs));
    });
  }
  for (auto* counts : {&bins.reference, &bins.candidate, &bins.errors}) counts->resize(kBins);
  return ForPairs(reference, got, [&](double ours, double theirs) {
    ++bins.reference[BinOf(ours, bins.low, bins.high)];
    ++bins.candidate[BinOf(theirs, bins.low, bins.high)];
    ++bins.errors[BinOf(theirs - ours, -bins.error, bins.error)];
  });
}

void LayerCollector::AddHistograms(LayerDiff& diff) const {
  for (const std::string& name : bin_order_) {
    const Bins& bins = bins_.at(name);
    if (!bins.any || bins.reference.empty()) continue;
    LayerHistograms both;
    both.name = name;
    both.values = {
        name + ": values", bins.low, bins.high, {{"reference", bins.reference}, {"candidate", bins.candidate}}};
    both.errors = {name + ": errors", -bins.error, bins.error, {{"candidate - reference", bins.errors}}};
    diff.worst.push_back(std::move(both));
  }
}

}  // namespace quant
