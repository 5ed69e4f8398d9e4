#include "passes/quant/weight_inventory.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "libquant/base/checked.h"
#include "libquant/ops/op_def.h"
#include "passes/quant/permuted_tensor.h"

namespace quant {
namespace {

constexpr std::array<std::string_view, 4> kReshapes = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"};

// What is seen of a weight at some value.
struct View {
  Tensor tensor;
  bool transposed = false;
  DType dtype = DType::kUndefined;
};

Tensor Settled(const View& view) { return view.transposed ? Permuted(view.tensor, {1, 0}) : view.tensor; }

std::optional<View> ThroughTranspose(const Node& node, const View& view) {
  const int64_t rank = view.tensor.rank();
  std::vector<int64_t> reversed;
  for (int64_t i = rank; i-- > 0;) reversed.push_back(i);
  const std::vector<int64_t> perm = node.attributes.Ints("perm", reversed);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (static_cast<int64_t>(perm.size()) != rank) return std::nullopt;
  for (int64_t i = 0; i < rank; ++i) {
    if (sorted[static_cast<size_t>(i)] != i) return std::nullopt;
  }
  View out = view;
  if (perm == sorted) return out;
  if (rank == 2) {
    out.transposed = !view.transposed;
  } else {
    out.tensor = Permuted(view.tensor, perm);
  }
  return out;
}

// Takes the output's dims from shape inference.
std::optional<View> ThroughReshape(const Value& output, const View& view) {
  if (!output.shape) return std::nullopt;
  Dims dims;
  for (const Dim& dim : *output.shape) {
    if (!dim.known()) return std::nullopt;
    dims.push_back(dim.value);
  }
  if (CheckedProduct(dims) != view.tensor.size()) return std::nullopt;
  return View{Settled(view).Reshaped(dims), false, view.dtype};
}

// What is seen behind a node that reads `view` as its input `index`; none where the node is the reader.
std::optional<View> Through(const Graph& graph, const Node& node, int32_t index, const View& view) {
  if (TakesAttributes(node)) return std::nullopt;
  if (!node.domain.empty() || index != 0 || node.outputs.size() != 1 || node.outputs[0] == kNoValue)
    return std::nullopt;
  if (node.op_type == "Identity") return view;
  if (node.op_type == "Transpose") return ThroughTranspose(node, view);
  if (std::find(kReshapes.begin(), kReshapes.end(), node.op_type) != kReshapes.end()) {
    return ThroughReshape(graph.value(node.outputs[0]), view);
  }
  if (node.op_type != "Cast") return std::nullopt;
  const auto to = static_cast<DType>(node.attributes.Int("to", 0));
  if (to != DType::kFloat && to != DType::kFloat16) return std::nullopt;
  return View{view.tensor, view.transposed, to};
}

void CollectReaders(const Graph& graph, ValueId weight, WeightSite& site) {
  const Tensor& constant = *graph.value(weight).constant;
  std::vector<std::pair<ValueId, View>> open = {{weight, {constant, false, constant.dtype()}}};
  while (!open.empty()) {
    const auto [value, view] = std::move(open.back());
    open.pop_back();
    for (const Use& use : graph.value(value).uses) {
      if (use.node == kNoNode) {
        site.is_output = true;
        continue;
      }
      const Node& node = graph.node(use.node);
      if (auto behind = Through(graph, node, use.index, view)) {
        open.emplace_back(node.outputs[0], std::move(*behind));
      } else {
        site.readers.push_back({use.node, use.index, view.tensor, view.transposed, view.dtype});
      }
    }
  }
}

bool IsQuantizer(const Graph& graph, NodeId n) {
  const OpDef* op = FindOp(graph.node(n).domain, graph.node(n).op_type);
  return op != nullptr && std::holds_alternative<Quantizer>(op->role);
}

// Whether the reader takes scales or zero points, itself or as rows looked up for one that does.
bool TakesParameters(const Graph& graph, const WeightReader& reader) {
  if (IsQuantizer(graph, reader.node)) return reader.input > 0;
  const Node& node = graph.node(reader.node);
  const Dims dims = reader.dims();
  if (node.op_type == "Gather" && reader.input == 0 && !dims.empty() && dims.back() == 1) return true;  // a scale a row
  if (node.op_type != "Gather" || node.outputs.size() != 1 || node.outputs[0] == kNoValue) return false;
  const auto& uses = graph.value(node.outputs[0]).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.node != kNoNode && use.index > 0 && IsQuantizer(graph, use.node);
  });
}

}  // namespace

bool TakesAttributes(const Node& node) {
  const auto& list = node.attributes.list();
  return std::any_of(list.begin(), list.end(), [](const Attribute& a) { return !a.ref_name.empty(); });
}

Dims WeightReader::dims() const { return transposed ? Dims{seen.dims()[1], seen.dims()[0]} : seen.dims(); }

WeightInventory FindWeights(const Graph& graph) {
  const std::vector<NodeId> order = graph.AllNodes();
  std::vector<int32_t> position(static_cast<size_t>(graph.node_count()), 0);
  for (size_t i = 0; i < order.size(); ++i) position[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  const auto earlier = [&](const WeightReader& a, const WeightReader& b) {
    return std::pair(position[static_cast<size_t>(a.node)], a.input) <
           std::pair(position[static_cast<size_t>(b.node)], b.input);
  };

  WeightInventory out;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || !value.constant || !InfoOf(value.constant->dtype()).is_float) continue;
    WeightSite site;
    site.value = v;
    CollectReaders(graph, v, site);
    std::erase_if(site.readers, [&](const WeightReader& r) { return TakesParameters(graph, r); });
    if (site.readers.empty()) continue;
    if (value.constant->rank() < 2) {
      ++out.small_constants;
      out.small_elements += value.constant->size();
      continue;
    }
    std::stable_sort(site.readers.begin(), site.readers.end(), earlier);
    out.weights.push_back(std::move(site));
  }
  std::stable_sort(out.weights.begin(), out.weights.end(),
                   [&](const WeightSite& a, const WeightSite& b) { return earlier(a.readers[0], b.readers[0]); });
  return out;
}

}  // namespace quant
