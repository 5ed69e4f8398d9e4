#include "passes/fusion/dot_product_attention.h"

#include "passes/match.h"

namespace quant {
namespace {

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  std::optional<DotProductAttention> Run(NodeId root) {
    found_.parts = {root};
    const Node& product = graph_.node(root);
    found_.v = InputOf(product, 1);
    const Node* softmax = Take(InputOf(product, 0), "Softmax");
    if (softmax == nullptr || RankOf(graph_, softmax->inputs[0]) != 4) return std::nullopt;
    const int64_t axis = softmax->attributes.Int("axis", -1);
    if (axis != -1 && axis != 3) return std::nullopt;
    ValueId scores = softmax->inputs[0];
    if (const Node* add = MadeBy(graph_, scores, "Add")) {
      const size_t i = Descends(InputOf(*add, 0)) ? 0 : 1;
      found_.mask = InputOf(*add, 1 - i);
      found_.parts.push_back(ProducerOf(graph_, scores));
      scores = InputOf(*add, i);
    }
    const Node* dots = Take(Unscaled(scores), "MatMul");
    if (dots == nullptr) return std::nullopt;
    found_.q = Unscaled(dots->inputs[0]);
    const Node* transpose = Take(Unscaled(InputOf(*dots, 1)), "Transpose");
    if (transpose == nullptr) return std::nullopt;
    const auto perm = transpose->attributes.Ints("perm");
    found_.k_by_length = perm == std::vector<int64_t>{0, 2, 3, 1};
    if (!found_.k_by_length && perm != std::vector<int64_t>{0, 1, 3, 2}) return std::nullopt;
    found_.k = Unscaled(transpose->inputs[0]);
    return std::move(found_);
  }

 private:
  const Node* Take(ValueId v, std::string_view op_type) {
    const Node* node = MadeBy(graph_, v, op_type);
    if (node == nullptr || HasReferences(*node) || InputOf(*node, 0) == kNoValue) return nullptr;
    found_.parts.push_back(ProducerOf(graph_, v));
    return node;
  }
  // Whether it is a product, scaled or not.
  bool Descends(ValueId v) const {
    const NodeId n = ProducerOf(graph_, v);
    if (n == kNoNode || IsOp(graph_.node(n), "MatMul")) return n != kNoNode;
    if (!IsOp(graph_.node(n), "Mul") && !IsOp(graph_.node(n), "Div")) return false;
    return MadeBy(graph_, InputOf(graph_.node(n), 0), "MatMul") != nullptr ||
           MadeBy(graph_, InputOf(graph_.node(n), 1), "MatMul") != nullptr;
  }
  // What is scaled by a positive scalar, if the value is that; else the value.
  ValueId Unscaled(ValueId v) {
    const NodeId n = ProducerOf(graph_, v);
    if (n == kNoNode || (!IsOp(graph_.node(n), "Mul") && !IsOp(graph_.node(n), "Div"))) return v;
    const Node& node = graph_.node(n);
    const bool divides = IsOp(node, "Div");
    for (const size_t i : {0, 1}) {
      const auto factor = NumberBeside(graph_, InputOf(node, 1 - i), InputOf(node, i));
      if (!factor || *factor <= 0 || (divides && i == 1)) continue;
      found_.scale *= divides ? 1 / *factor : *factor;
      found_.parts.push_back(n);
      return node.inputs[i];
    }
    return v;
  }

  const Graph& graph_;
  DotProductAttention found_;
};

}  // namespace

std::optional<DotProductAttention> MatchAttention(const Graph& graph, NodeId last_product) {
  return Matcher(graph).Run(last_product);
}

std::optional<std::string> UnprovenShapes(const Graph& graph, const DotProductAttention& found) {
  for (ValueId v : {found.q, found.k, found.v}) {
    if (RankOf(graph, v) != 4) return "queries, keys and values are not known to have four axes";
  }
  const Shape &q = *graph.value(found.q).shape, &k = *graph.value(found.k).shape, &v = *graph.value(found.v).shape;
  const size_t k_heads = found.k_by_length ? 2 : 1, k_length = found.k_by_length ? 1 : 2;
  if (!SameDim(q[0], k[0]) || !SameDim(k[0], v[0])) return "queries, keys and values are not known to be of one batch";
  if (!q[1].known() || !SameDim(q[1], k[k_heads]) || !SameDim(k[k_heads], v[1])) {
    return "queries, keys and values are not known to have as many heads";
  }
  if (found.mask == kNoValue) return std::nullopt;
  const auto& mask = graph.value(found.mask).shape;
  if (!mask || mask->size() < 2 || mask->size() > 4) return "the mask is not known to have two to four axes";
  if (!SameDim(mask->back(), k[k_length])) return "the mask is not known to be as long as the keys";
  const Shape scores = {q[0], q[1], q[2], k[k_length]};
  for (size_t i = 0; i + 1 < mask->size(); ++i) {
    const Dim &dim = (*mask)[i], &wanted = scores[4 - mask->size() + i];
    if (dim.value != 1 && !SameDim(dim, wanted)) return "the mask is not known to have the shape of the scores";
  }
  return std::nullopt;
}

std::optional<ValueRef> MaskFor(const PassContext& context, GraphEdit& edit, const DotProductAttention& found,
                                ValueId q, size_t length, const std::string& name) {
  if (found.mask == kNoValue) return ValueRef::None();
  const Value& mask = context.graph().value(found.mask);
  const Dim rows = (*context.graph().value(q).shape)[length];
  const size_t rank = mask.shape->size();
  if (SameDim((*mask.shape)[rank - 2], rows)) return ValueRef::Of(found.mask);
  Shape shape = *mask.shape;
  shape[rank - 2] = rows;
  std::vector<int64_t> dims(rank, 1);
  ValueRef wanted;
  if (rows.known()) {
    dims[rank - 2] = rows.value;
    wanted = edit.AddConstant(name + "_mask_shape", Tensor::Of<int64_t>({static_cast<int64_t>(rank)}, dims));
  } else if (context.opset() < 15) {
    return context.Miss("the mask has one row, and before opset 15 the number of queries is not easily had");
  } else {
    auto count = NewNodeOf("", "Shape", {ValueRef::Of(q)});
    count.name_hint = name + "_mask_rows";
    count.attributes.Set("start", static_cast<int64_t>(length));
    count.attributes.Set("end", static_cast<int64_t>(length) + 1);
    const ValueRef number = edit.AddNode(std::move(count), DType::kInt64, Shape{{1, ""}});
    dims.resize(rank - 2);
    const Dims one = {1}, before = {static_cast<int64_t>(dims.size())};
    auto concat = NewNodeOf("", "Concat", {});
    concat.name_hint = name + "_mask_shape";
    if (!dims.empty())
      concat.inputs.push_back(edit.AddConstant(name + "_mask_before", Tensor::Of<int64_t>(before, dims)));
    concat.inputs.push_back(number);
    concat.inputs.push_back(edit.AddConstant(name + "_mask_after", Tensor::Of<int64_t>(one, one)));
    concat.attributes.Set("axis", int64_t{0});
    wanted = edit.AddNode(std::move(concat), DType::kInt64, Shape{{static_cast<int64_t>(rank), ""}});
  }
  auto expand = NewNodeOf("", "Expand", {ValueRef::Of(found.mask), wanted});
  expand.name_hint = name + "_mask";
  return edit.AddNode(std::move(expand), mask.dtype, shape);
}

bool MayFuse(const PassContext& context, const DotProductAttention& found, NodeId last) {
  const Graph& graph = context.graph();
  const DType dtype = graph.value(found.q).dtype;
  if (dtype != DType::kFloat && dtype != DType::kFloat16) {
    context.Miss("{} is not handled", NameOf(dtype));
    return false;
  }
  if (found.mask != kNoValue && graph.value(found.mask).dtype != dtype) return false;
  const auto why = WhyNotFreed(graph, found.parts, last);
  if (why) context.Miss("{}", *why);
  return !why;
}

}  // namespace quant
