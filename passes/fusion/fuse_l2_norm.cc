// x over its norm along an axis becomes LpNormalization.
//
//   x ─┬─ ReduceL2 ─ [Clip or Max(epsilon)] ─ [Expand] ─┐
//      └─────────────────────────────────────────────── Div ─ y        =>        x ─ LpNormalization ─ y
//
// The norm is ReduceL2, ReduceL1, or the Sqrt of a ReduceSumSquare or of a ReduceSum of squares, over one axis that is
// kept. Nothing else reads what lies between. Rows of norm epsilon or more give the same, and so do rows of zeros where
// there is an epsilon: 0. Accepted are two differences. Without an epsilon, or with one that is 0 in float16, a row of
// zeros gave NaN and gives 0. A row of a norm in between gave x / epsilon, shorter than 1, and gives length 1: epsilon
// must be at most 1e-12, what PyTorch's normalize has, so that float32 sums of squares hardly go there.
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr double kLargestEpsilon = 1e-12;

struct Norm {
  std::vector<NodeId> parts;
  ValueId x = kNoValue;
  NodeId reduction = kNoNode;
  int64_t p = 2;
};

class Reader {
 public:
  Reader(const Graph& graph, NodeId root) : graph_(graph) { norm_.parts = {root}; }

  std::optional<Norm> Read(ValueId x, ValueId divisor) {
    norm_.x = x;
    if (const Node* expand = Take(divisor, "Expand")) {
      if (!SameShape(graph_, divisor, x)) return std::nullopt;
      divisor = expand->inputs[0];
    }
    divisor = BehindEpsilon(divisor);
    if (!IsNorm(divisor)) return std::nullopt;
    return std::move(norm_);
  }

 private:
  const Node* Take(ValueId v, std::string_view op_type) {
    const Node* node = MadeBy(graph_, v, op_type);
    if (node == nullptr || HasReferences(*node) || InputOf(*node, 0) == kNoValue) return nullptr;
    norm_.parts.push_back(ProducerOf(graph_, v));
    return node;
  }
  bool IsEpsilon(ValueId v) const {
    const auto number = NumberBeside(graph_, v, norm_.x);
    return number && *number >= 0 && *number <= kLargestEpsilon;
  }
  ValueId BehindEpsilon(ValueId v) {
    if (const Node* clip = Take(v, "Clip")) {
      const double lowest = clip->attributes.Float("min", -1);
      const bool open = !clip->attributes.Has("max") && InputOf(*clip, 2) == kNoValue;
      const bool fits = IsEpsilon(InputOf(*clip, 1)) || (lowest >= 0 && lowest <= kLargestEpsilon);
      return open && fits ? clip->inputs[0] : kNoValue;
    }
    const Node* max = Take(v, "Max");
    if (max == nullptr) return v;
    if (max->inputs.size() != 2) return kNoValue;
    for (const size_t i : {0, 1}) {
      if (IsEpsilon(max->inputs[i])) return max->inputs[1 - i];
    }
    return kNoValue;
  }

  bool IsNorm(ValueId v) {
    if (v == kNoValue) return false;
    for (const auto& [op, p] : {std::pair("ReduceL2", 2), std::pair("ReduceL1", 1)}) {
      const Node* reduce = Take(v, op);
      if (reduce == nullptr) continue;
      norm_.p = p;
      norm_.reduction = ProducerOf(graph_, v);
      return reduce->inputs[0] == norm_.x;
    }
    const Node* sqrt = Take(v, "Sqrt");
    if (sqrt == nullptr) return false;
    norm_.reduction = ProducerOf(graph_, sqrt->inputs[0]);
    if (const Node* sum = Take(sqrt->inputs[0], "ReduceSumSquare")) return sum->inputs[0] == norm_.x;
    const Node* sum = Take(sqrt->inputs[0], "ReduceSum");
    return sum != nullptr && IsSquare(sum->inputs[0]);
  }
  bool IsSquare(ValueId v) {
    if (const Node* mul = Take(v, "Mul")) return mul->inputs[0] == norm_.x && InputOf(*mul, 1) == norm_.x;
    const Node* pow = Take(v, "Pow");
    return pow != nullptr && pow->inputs[0] == norm_.x && NumberBeside(graph_, InputOf(*pow, 1), norm_.x) == 2;
  }

  const Graph& graph_;
  Norm norm_;
};

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& div = graph.node(root);
  if (InputOf(div, 0) == kNoValue || InputOf(div, 1) == kNoValue) return std::nullopt;
  const auto norm = Reader(graph, root).Read(div.inputs[0], div.inputs[1]);
  if (!norm) return std::nullopt;
  const Node& reduction = graph.node(norm->reduction);
  const auto axes = IntsOf(graph, reduction, "axes", 1);
  if (!axes || axes->size() != 1 || reduction.attributes.Int("keepdims", 1) == 0) {
    return context.Miss("its norm is not over one axis that is kept");
  }
  const DType dtype = graph.value(norm->x).dtype;
  if (dtype != DType::kFloat && dtype != DType::kFloat16) return context.Miss("{} is not handled", NameOf(dtype));
  if (!context.MayMake("", "LpNormalization")) return context.Miss("the target has no LpNormalization");
  if (const auto why = WhyNotFreed(graph, norm->parts, root)) return context.Miss("{}", *why);
  GraphEdit edit(root);
  GraphEdit::NewNode node = NewNodeOf("", "LpNormalization", {ValueRef::Of(norm->x)});
  node.attributes.Set("axis", axes->front());
  node.attributes.Set("p", norm->p);
  edit.ReplaceNode(root, std::move(node));
  return edit;
}

}  // namespace

const Pass& FuseL2NormPass() {
  static const Pass pass = {.name = "fuse-l2-norm",
                            .summary = "A division by the norm along an axis becomes LpNormalization",
                            .roots = {"Div"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
