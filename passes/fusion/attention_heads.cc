#include "passes/fusion/attention_heads.h"

#include <algorithm>
#include <unordered_set>

#include "passes/match.h"

namespace quant {
namespace {

constexpr size_t kMostVisited = 256;

bool IsAxis(int64_t axis, int64_t wanted, int64_t rank) { return axis == wanted || axis == wanted - rank; }

// The number of a one-element input of integers.
std::optional<int64_t> IntOf(const Graph& graph, ValueId value) {
  const auto ints = value == kNoValue ? std::nullopt : IntsOf(graph, value);
  return ints && ints->size() == 1 ? std::optional(ints->front()) : std::nullopt;
}

// Of Slice(x, [i], [i + 1], axis 0) or Split into single entries.
std::optional<Entry> OneOf(const Graph& graph, ValueId value) {
  const NodeId n = ProducerOf(graph, value);
  if (n == kNoNode || HasReferences(graph.node(n))) return std::nullopt;
  const Node& node = graph.node(n);
  const auto rank = RankOf(graph, value);
  if (!rank) return std::nullopt;
  if (IsOp(node, "Split")) {
    if (!IsAxis(node.attributes.Int("axis", 0), 0, *rank)) return std::nullopt;
    for (ValueId out : node.outputs) {
      if (out == kNoValue || !graph.value(out).shape || graph.value(out).shape->front().value != 1) return std::nullopt;
    }
    return Entry{node.inputs[0], graph.value(value).output_index};
  }
  if (!IsOp(node, "Slice")) return std::nullopt;
  const auto begin = IntOf(graph, InputOf(node, 1)), end = IntOf(graph, InputOf(node, 2));
  const auto axis = IntOf(graph, InputOf(node, 3));
  if (!begin || !end || *begin < 0 || *end != *begin + 1 || !axis || !IsAxis(*axis, 0, *rank)) return std::nullopt;
  if (InputOf(node, 4) != kNoValue && IntOf(graph, node.inputs[4]) != 1) return std::nullopt;
  return Entry{node.inputs[0], *begin};
}

class Vanishing {
 public:
  Vanishing(const Graph& graph, const std::vector<NodeId>& parts, const std::vector<NodeId>& replaced)
      : graph_(graph), replaced_(replaced), gone_(parts.begin(), parts.end()) {}

  bool Goes(ValueId value) {
    if (value == kNoValue) return true;
    const auto& uses = graph_.value(value).uses;
    return std::all_of(uses.begin(), uses.end(),
                       [this](const Use& use) { return use.node != kNoNode && GoesNode(use.node); });
  }

 private:
  bool GoesNode(NodeId n) {
    if (gone_.contains(n)) return true;
    if (gone_.size() > kMostVisited) return false;
    const Node& node = graph_.node(n);
    if (std::find(replaced_.begin(), replaced_.end(), n) == replaced_.end() &&
        !std::all_of(node.outputs.begin(), node.outputs.end(), [this](ValueId v) { return Goes(v); })) {
      return false;
    }
    return gone_.insert(n).second;
  }

  const Graph& graph_;
  const std::vector<NodeId>& replaced_;
  std::unordered_set<NodeId> gone_;
};

}  // namespace

ValueId BeforeHeadSwap(const Graph& graph, ValueId value) {
  const Node* transpose = MadeBy(graph, value, "Transpose");
  if (transpose == nullptr || HasReferences(*transpose)) return kNoValue;
  return transpose->attributes.Ints("perm") == std::vector<int64_t>{0, 2, 1, 3} ? transpose->inputs[0] : kNoValue;
}

JoinedHeads SplitPast(const Graph& graph, ValueId value) {
  const Node* concat = MadeBy(graph, value, "Concat");
  if (concat == nullptr || concat->inputs.size() != 2 || HasReferences(*concat) ||
      !IsAxis(concat->attributes.Int("axis", 0), 2, 4)) {
    return {kNoValue, value, kNoNode};
  }
  return {concat->inputs[0], concat->inputs[1], ProducerOf(graph, value)};
}

std::optional<Entry> EntryOf(const Graph& graph, ValueId value) {
  if (const Node* gather = MadeBy(graph, value, "Gather")) {
    const Tensor* index = ConstantOf(graph, InputOf(*gather, 1));
    const auto number = IntOf(graph, InputOf(*gather, 1));
    const bool first = !HasReferences(*gather) && gather->attributes.Int("axis", 0) == 0;
    if (!first || !number || *number < 0 || index->rank() != 0) return std::nullopt;
    return Entry{gather->inputs[0], *number};
  }
  const Node* squeeze = MadeBy(graph, value, "Squeeze");
  if (squeeze == nullptr) return std::nullopt;
  const auto axes = IntsOf(graph, *squeeze, "axes", 1);
  if (!axes || *axes != std::vector<int64_t>{0}) return std::nullopt;
  return OneOf(graph, squeeze->inputs[0]);
}

bool Vanishes(const Graph& graph, ValueId value, const std::vector<NodeId>& parts,
              const std::vector<NodeId>& replaced) {
  return Vanishing(graph, parts, replaced).Goes(value);
}

}  // namespace quant
