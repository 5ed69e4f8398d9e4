#include "libquant/exec/activation_memory.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "libquant/base/checked.h"
#include "libquant/ops/find_kernel.h"

namespace quant {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t Plus(int64_t a, int64_t b) { return CheckedAdd(a, b).value_or(kMost); }

class Peaks {
 public:
  Peaks(const Model& model, const ActivationOptions& options) : model_(model), graph_(model.graph), options_(options) {}

  ActivationMemory Run() {
    FindFolded();
    for (ValueId v : graph_.main().inputs) {
      if (!graph_.value(v).constant) NameOpenDims(graph_.value(v));
    }
    const auto [peak, at] = OfRegion(kMainRegion);
    out_.peak_bytes = peak;
    out_.at = at;
    return out_;
  }

 private:
  struct Peak {
    int64_t bytes = 0;
    NodeId at = kNoNode;
  };

  void NameOpenDims(const Value& value) {
    for (const Dim& d : value.shape.value_or(Shape{})) {
      const std::string name = d.symbol.empty() ? "?" : d.symbol;
      if (d.known() || value.uses.empty()) continue;
      if (std::find(out_.open_dims.begin(), out_.open_dims.end(), name) == out_.open_dims.end()) {
        out_.open_dims.push_back(name);
      }
    }
  }

  // Values that are known before a run.
  void FindFolded() {
    folded_.assign(static_cast<size_t>(graph_.value_count()), false);
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      folded_[static_cast<size_t>(v)] = graph_.value(v).constant.has_value();
    }
    for (NodeId n : graph_.AllNodes()) {
      const Node& node = graph_.node(n);
      const bool known = BodiesOf(node).empty() &&
                         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return Folded(v); });
      for (ValueId v : node.outputs) {
        if (v != kNoValue && known) folded_[static_cast<size_t>(v)] = true;
      }
    }
  }

  bool Folded(ValueId v) const { return v == kNoValue || folded_[static_cast<size_t>(v)]; }

  // -1 when rank or type is unknown.
  int64_t BytesOf(const Value& value) const {
    if (!value.shape || InfoOf(value.dtype).bits == 0) return -1;
    Dims dims;
    for (const Dim& d : *value.shape) dims.push_back(d.known() ? d.value : 1);
    const bool halved = options_.half && value.dtype == DType::kFloat;
    return BytesFor(halved ? DType::kFloat16 : value.dtype, dims).value_or(kMost);
  }

  // The node of this region in which a use happens; kNoNode for the region's own output.
  NodeId NodeIn(RegionId region, const Use& use) const {
    NodeId node = use.node;
    for (RegionId r = use.region; r != region && r >= 0; r = graph_.region(r).parent) node = graph_.region(r).owner;
    return node;
  }

  // Bytes that come at each step of a region and go before it; the last step is that after all nodes.
  struct Steps {
    std::vector<std::vector<int64_t>> come, go;
    std::unordered_map<NodeId, size_t> of;
  };

  size_t LastRead(RegionId region, const Steps& steps, const Value& value, size_t first) const {
    size_t last = first;
    for (const Use& use : value.uses) {
      const NodeId node = NodeIn(region, use);
      last = std::max(last, node == kNoNode ? steps.of.size() : steps.of.at(node));
    }
    return last;
  }

  // Whether the node writes its output over one of its inputs, which another node of the region made.
  bool WritesOver(RegionId region, const Steps& steps, const Node& node, ValueId out) const {
    const OpDef* op = FindKernel(node.domain, node.op_type, model_.OpsetOf(node.domain));
    if (op == nullptr || op->as_tail == nullptr || out != node.outputs[0]) return false;
    const Value& made = graph_.value(out);
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      if (Folded(v) || graph_.value(v).producer == kNoNode || graph_.value(v).region != region) return false;
      const Value& read = graph_.value(v);
      const size_t here = steps.of.at(made.producer);
      return read.dtype == made.dtype && BytesOf(read) == BytesOf(made) && !Elsewhere(region, v) &&
             LastRead(region, steps, read, 0) == here;
    });
  }

  bool Elsewhere(RegionId region, ValueId v) const { return region == kMainRegion && options_.elsewhere.count(v) > 0; }

  void Note(RegionId region, ValueId v, size_t first, Steps& steps) {
    const Value& value = graph_.value(v);
    if (Folded(v) || value.uses.empty() || Elsewhere(region, v)) return;
    const int64_t bytes = BytesOf(value);
    if (bytes < 0) {
      ++out_.unknown_values;
      return;
    }
    steps.go[LastRead(region, steps, value, first) + 1].push_back(bytes);
    std::vector<int64_t>& freed = steps.go[first + 1];
    const bool over = value.producer != kNoNode && WritesOver(region, steps, graph_.node(value.producer), v);
    const auto taken = over ? std::find(freed.begin(), freed.end(), bytes) : freed.end();
    if (taken == freed.end()) {
      steps.come[first].push_back(bytes);
    } else {
      freed.erase(taken);
    }
  }

  Peak OfRegion(RegionId region) {
    const std::vector<NodeId>& order = graph_.region(region).nodes;
    Steps steps;
    for (size_t i = 0; i < order.size(); ++i) steps.of[order[i]] = i;
    steps.come.resize(order.size() + 1);
    steps.go.resize(order.size() + 2);
    for (ValueId v : graph_.region(region).inputs) Note(region, v, 0, steps);
    for (NodeId n : order) {
      for (ValueId v : graph_.node(n).outputs) {
        if (v != kNoValue) Note(region, v, steps.of[n], steps);
      }
    }
    return Walk(order, steps.come, steps.go);
  }

  Peak Walk(const std::vector<NodeId>& order, const std::vector<std::vector<int64_t>>& begins,
            const std::vector<std::vector<int64_t>>& ends) {
    Peak peak;
    int64_t alive = 0;
    for (size_t s = 0; s < order.size() || s == 0; ++s) {
      for (int64_t bytes : ends[s]) alive -= std::min(alive, bytes);
      for (int64_t bytes : begins[s]) alive = Plus(alive, bytes);
      int64_t inside = 0;
      if (s < order.size()) {
        for (RegionId body : BodiesOf(graph_.node(order[s]))) inside = std::max(inside, OfRegion(body).bytes);
      }
      if (const int64_t now = Plus(alive, inside); now > peak.bytes) {
        peak = {now, s < order.size() ? order[s] : kNoNode};
      }
    }
    return peak;
  }

  const Model& model_;
  const Graph& graph_;
  const ActivationOptions& options_;
  std::vector<bool> folded_;
  ActivationMemory out_;
};

}  // namespace

ActivationMemory PeakActivations(const Model& model, const ActivationOptions& options) {
  return Peaks(model, options).Run();
}

}  // namespace quant
