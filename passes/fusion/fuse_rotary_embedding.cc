// Rotary position embedding as PyTorch models spell it out becomes one operator, from opset 23 on.
//
//   angles ─ Concat with itself ─┬─ Cos ─ Unsqueeze ─ cos
//                                └─ Sin ─ Unsqueeze ─ sin
//   x ─┬──────────────────────────────────────────── Mul(cos) ─┐
//      ├─ first half ─────────────────┐                         Add ─ y
//      └─ second half ─ Neg ─ Concat(negated, first) ─ Mul(sin) ─┘
//   =>
//   x, Cos(angles), Sin(angles) ─ RotaryEmbedding ─ y
//
// x is [batch, heads, length, size] and the angles are [batch, length, size / 2], with the same batch and length as far
// as shapes tell, so that nothing is broadcast but the heads. A Cos or Sin of the angles that is there already is used
// again. Nothing else reads what lies between. float32 and float16.
#include <algorithm>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

struct Rotation {
  ValueId x = kNoValue, angles = kNoValue;
  std::vector<NodeId> parts;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  std::optional<Rotation> Run(NodeId root) {
    const Node& add = graph_.node(root);
    for (const size_t i : {0, 1}) {
      found_ = {};
      found_.parts = {root};
      if (Rotated(InputOf(add, 1 - i)) && Straight(InputOf(add, i))) return std::move(found_);
    }
    return std::nullopt;
  }

 private:
  const Node* Take(ValueId v, std::string_view op_type) {
    const NodeId n = quant::Take(graph_, v, op_type, found_.parts);
    return n == kNoNode ? nullptr : &graph_.node(n);
  }

  // x * cos.
  bool Straight(ValueId v) {
    const Node* mul = Take(v, "Mul");
    if (mul == nullptr) return false;
    const size_t i = mul->inputs[0] == found_.x ? 0 : 1;
    return InputOf(*mul, i) == found_.x && AnglesOf(InputOf(*mul, 1 - i), "Cos") == found_.angles;
  }

  // Concat(-second half, first half) * sin: gives x and the angles.
  bool Rotated(ValueId v) {
    const Node* mul = Take(v, "Mul");
    if (mul == nullptr) return false;
    const size_t i = MadeBy(graph_, mul->inputs[0], "Concat") != nullptr ? 0 : 1;
    found_.angles = AnglesOf(InputOf(*mul, 1 - i), "Sin");
    const Node* concat = Take(InputOf(*mul, i), "Concat");
    if (found_.angles == kNoValue || concat == nullptr || concat->inputs.size() != 2) return false;
    const int64_t axis = concat->attributes.Int("axis", 0);
    const Node* neg = Take(concat->inputs[0], "Neg");
    if (neg == nullptr || (axis != 3 && axis != -1)) return false;
    return Halves(concat->inputs[1], neg->inputs[0]);
  }

  // The two halves of one value's last axis.
  bool Halves(ValueId first, ValueId second) {
    const NodeId n = ProducerOf(graph_, first), m = ProducerOf(graph_, second);
    if (n == kNoNode || m == kNoNode || HasReferences(graph_.node(n)) || HasReferences(graph_.node(m))) return false;
    found_.x = InputOf(graph_.node(n), 0);
    if (found_.x == kNoValue || InputOf(graph_.node(m), 0) != found_.x || RankOf(graph_, found_.x) != 4) return false;
    const int64_t size = graph_.value(found_.x).shape->back().value;
    if (size <= 0 || size % 2 != 0) return false;
    found_.parts.insert(found_.parts.end(), {n, m});
    if (n == m) return IsSplit(graph_.node(n), first, second, size);
    const auto is_slice = [&](NodeId node, int64_t begin, int64_t end) {
      return IsOp(graph_.node(node), "Slice") && IsSlice(graph_.node(node), begin, end, size);
    };
    return is_slice(n, 0, size / 2) && is_slice(m, size / 2, size);
  }
  bool IsSplit(const Node& split, ValueId first, ValueId second, int64_t size) const {
    if (!IsOp(split, "Split") || split.outputs != std::vector<ValueId>{first, second}) return false;
    const int64_t axis = split.attributes.Int("axis", 0);
    const auto lengths = IntsOf(graph_, split, "split", 1);
    if (!lengths || (axis != 3 && axis != -1)) return false;
    return lengths->empty() || *lengths == std::vector<int64_t>{size / 2, size / 2};
  }
  bool IsSlice(const Node& slice, int64_t begin, int64_t end, int64_t size) const {
    const auto is = [&](size_t input, auto accepts) {
      const auto ints = IntsOf(graph_, InputOf(slice, input));
      return ints && ints->size() == 1 && accepts(ints->front());
    };
    return is(1, [&](int64_t v) { return v == begin || (v < 0 && v + size == begin); }) &&
           is(2, [&](int64_t v) { return std::min(v < 0 ? v + size : v, size) == end; }) &&
           is(3, [](int64_t v) { return v == 3 || v == -1; }) &&
           (InputOf(slice, 4) == kNoValue || is(4, [](int64_t v) { return v == 1; }));
  }

  // Of Unsqueeze(function(Concat(angles, angles))), one axis put in for the heads.
  ValueId AnglesOf(ValueId v, std::string_view function) const {
    const Node* unsqueeze = MadeBy(graph_, v, "Unsqueeze");
    if (unsqueeze == nullptr || RankOf(graph_, v) != 4) return kNoValue;
    const auto axes = IntsOf(graph_, *unsqueeze, "axes", 1);
    if (!axes || (*axes != std::vector<int64_t>{1} && *axes != std::vector<int64_t>{-3})) return kNoValue;
    const Node* wave = MadeBy(graph_, unsqueeze->inputs[0], function);
    const Node* concat = wave != nullptr ? MadeBy(graph_, InputOf(*wave, 0), "Concat") : nullptr;
    if (concat == nullptr || concat->inputs.size() != 2 || HasReferences(*concat)) return kNoValue;
    const int64_t axis = concat->attributes.Int("axis", 0);
    if (concat->inputs[0] != concat->inputs[1] || (axis != 2 && axis != -1)) return kNoValue;
    return concat->inputs[0];
  }

  const Graph& graph_;
  Rotation found_;
};

// `function` of the value: a node before `root` that makes it, or a new one.
ValueRef WaveOf(const Graph& graph, GraphEdit& edit, NodeId root, ValueId angles, std::string_view function) {
  const auto& nodes = graph.region(graph.node(root).region).nodes;
  const auto end = std::find(nodes.begin(), nodes.end(), root);
  for (const Use& use : graph.value(angles).uses) {
    if (use.node == kNoNode || !IsOp(graph.node(use.node), function)) continue;
    if (std::find(nodes.begin(), end, use.node) != end) return ValueRef::Of(graph.node(use.node).outputs[0]);
  }
  auto node = NewNodeOf("", function, {ValueRef::Of(angles)});
  node.name_hint = graph.value(angles).name + "_" + std::string(function);
  return edit.AddNode(std::move(node), graph.value(angles).dtype, graph.value(angles).shape);
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const auto found = Matcher(graph).Run(root);
  if (!found) return std::nullopt;
  if (!context.MayMake("", "RotaryEmbedding")) {
    return context.Miss("RotaryEmbedding needs opset 23 and a target that has it");
  }
  const Value &x = graph.value(found->x), &angles = graph.value(found->angles);
  if (x.dtype != DType::kFloat && x.dtype != DType::kFloat16) return context.Miss("{} is not handled", NameOf(x.dtype));
  if (angles.dtype != x.dtype) return context.Miss("its angles are of another type");
  if (!angles.shape || angles.shape->size() != 3 || (*angles.shape)[2].value * 2 != x.shape->back().value ||
      !SameDim((*angles.shape)[0], (*x.shape)[0]) || !SameDim((*angles.shape)[1], (*x.shape)[2])) {
    return context.Miss("its angles are not known to be of the same batch and length");
  }
  if (const auto why = WhyNotFreed(graph, found->parts, root)) return context.Miss("{}", *why);
  GraphEdit edit(root);
  const ValueRef cos = WaveOf(graph, edit, root, found->angles, "Cos");
  const ValueRef sin = WaveOf(graph, edit, root, found->angles, "Sin");
  edit.ReplaceNode(root, NewNodeOf("", "RotaryEmbedding", {ValueRef::Of(found->x), cos, sin}));
  return edit;
}

}  // namespace

const Pass& FuseRotaryEmbeddingPass() {
  static const Pass pass = {.name = "fuse-rotary-embedding",
                            .summary = "Halves turned by cosines and sines of angles become RotaryEmbedding",
                            .roots = {"Add"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
