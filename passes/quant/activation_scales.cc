#include "passes/quant/activation_scales.h"

#include <algorithm>

#include "libquant/numerics/format.h"
#include "passes/match.h"

namespace quant {
namespace {

// Inputs of a Concat whose ranges differ by more have parameters of their own, where the target can do with that.
constexpr float kAlikeRanges = 1.2F;
// Codes that the narrowest input of a Concat should at least have.
constexpr float kFewCodes = 16;

// Sets of values, merged one by one.
class Groups {
 public:
  ValueId RootOf(ValueId v) {
    auto found = parent_.find(v);
    if (found == parent_.end() || found->second == v) return v;
    return found->second = RootOf(found->second);
  }
  void Join(ValueId a, ValueId b) {
    a = RootOf(a);
    b = RootOf(b);
    parent_[std::max(a, b)] = std::min(a, b);
    parent_.emplace(std::min(a, b), std::min(a, b));
  }

 private:
  std::map<ValueId, ValueId> parent_;
};

float WidthOf(const ValueRange& range) { return std::max(range.max, 0.0F) - std::min(range.min, 0.0F); }

bool AreAlike(const std::vector<const ValueRange*>& ranges) {
  float least = WidthOf(*ranges[0]), most = least;
  for (const ValueRange* range : ranges) {
    least = std::min(least, WidthOf(*range));
    most = std::max(most, WidthOf(*range));
  }
  return most <= kAlikeRanges * least;
}

Status CheckRanges(const Model& model, const IntegerPlan& plan, const ValueRanges& ranges) {
  std::vector<std::string> missing;
  for (const ValueId v : plan.quantized) {
    const std::string& name = model.graph.value(v).name;
    if (!ranges.contains(name)) missing.push_back(name);
  }
  if (missing.empty()) return OkStatus();
  constexpr size_t kShown = 5;
  const size_t all = missing.size();
  missing.resize(std::min(all, kShown));
  return DataError("{} of {} values to be quantized have no range: {}{}; calibrate the same model again", all,
                   plan.quantized.size(), fmt::join(missing, ", "), all > kShown ? ", ..." : "");
}

}  // namespace

QuantSpec ActivationSpec(const QuantizeOptions& options) {
  QuantSpec spec;
  spec.format = FindFormat(options.activations);
  spec.granularity = Granularity::kTensor;
  spec.scheme = options.target.integer.zero_points ? Scheme::kAsymmetric : Scheme::kSymmetric;
  return spec;
}

StatusOr<ActivationScales> ChooseActivationScales(const Model& model, const IntegerPlan& plan,
                                                  const QuantizeOptions& options, const ValueRanges& ranges) {
  RETURN_IF_ERROR(CheckRanges(model, plan, ranges));
  const Graph& graph = model.graph;
  const auto range_of = [&](ValueId v) -> const ValueRange& { return ranges.find(graph.value(v).name)->second; };
  Groups groups;
  for (const IntegerNode& n : plan.nodes) {
    const Node& node = graph.node(n.node);
    const bool concat = IsOp(node, "Concat");
    if (n.kind != IntegerNode::Kind::kMoving && !concat) continue;
    std::vector<ValueId> shared;
    for (const int32_t i : n.inputs) shared.push_back(node.inputs[static_cast<size_t>(i)]);
    for (const ValueId v : node.outputs) shared.push_back(v);
    std::vector<const ValueRange*> widths;
    for (const ValueId v : shared) widths.push_back(&range_of(v));
    if (concat && n.kind != IntegerNode::Kind::kMoving && !AreAlike(widths)) continue;
    for (const ValueId v : shared) groups.Join(shared[0], v);
  }
  std::map<ValueId, RangeStats> stats;
  for (const ValueId v : plan.quantized) {
    const ValueRange& range = range_of(v);
    RangeStats& group = stats[groups.RootOf(v)];
    group.AddOne(range.min);
    group.AddOne(range.max);
  }
  ActivationScales scales;
  const QuantSpec spec = ActivationSpec(options);
  for (const ValueId v : plan.quantized) {
    ASSIGN_OR_RETURN(scales[v], ChooseScale(spec, stats[groups.RootOf(v)], {}));
  }
  return scales;
}

std::vector<IntegerNote> NoteUnlikeInputs(const Model& model, const IntegerPlan& plan, const QuantizeOptions& options,
                                          const ValueRanges& ranges) {
  const Format& format = *FindFormat(options.activations);
  const auto all = static_cast<float>(format.qmax - format.qmin);
  std::vector<IntegerNote> notes;
  for (const IntegerNode& n : plan.nodes) {
    const Node& node = model.graph.node(n.node);
    if (!IsOp(node, "Concat")) continue;
    const auto width_of = [&](ValueId v) { return WidthOf(ranges.find(model.graph.value(v).name)->second); };
    const float whole = width_of(n.made);
    ValueId narrowest = kNoValue;
    for (const int32_t i : n.inputs) {
      const ValueId v = node.inputs[static_cast<size_t>(i)];
      if (narrowest == kNoValue || width_of(v) < width_of(narrowest)) narrowest = v;
    }
    if (narrowest == kNoValue || whole <= 0) continue;
    const float codes = width_of(narrowest) / whole * all;
    if (codes >= kFewCodes) continue;
    notes.push_back(
        {n.node, fmt::format("its output ranges over {:.3g}, {} over {:.3g} alone: {:.0f} of {:.0f} codes are left "
                             "for that; leave what reads it float",
                             whole, model.graph.value(narrowest).name, width_of(narrowest), codes, all)});
  }
  return notes;
}

}  // namespace quant
