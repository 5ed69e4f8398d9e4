#include "passes/fusion/dot_product_attention.h"

#include <cmath>

#include "passes/match.h"

namespace quant {
namespace {

constexpr int kMostSteps = 4;        // from scores to the product
constexpr double kSwallows = -1e30;  // added to a float32 score, it is what is left

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
    for (int i = 0; i < 2; ++i) scores = Unmasked(scores);
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
    const NodeId n = quant::Take(graph_, v, op_type, found_.parts);
    return n == kNoNode ? nullptr : &graph_.node(n);
  }
  // Whether it is a product, scaled, masked or not.
  bool Descends(ValueId v, int depth = 0) const {
    const NodeId n = ProducerOf(graph_, v);
    if (n == kNoNode || depth > kMostSteps) return false;
    const Node& node = graph_.node(n);
    if (IsOp(node, "MatMul")) return true;
    const bool where = IsOp(node, "Where");
    if (!where && !IsOp(node, "Mul") && !IsOp(node, "Div") && !IsOp(node, "Add")) return false;
    return Descends(InputOf(node, where ? 1 : 0), depth + 1) || Descends(InputOf(node, where ? 2 : 1), depth + 1);
  }
  // What a mask is added to or Where hides a part of; else the value.
  ValueId Unmasked(ValueId v) {
    const NodeId n = ProducerOf(graph_, v);
    if (n == kNoNode) return v;
    const Node& node = graph_.node(n);
    if (IsOp(node, "Add") && found_.mask == kNoValue) {
      const size_t i = Descends(InputOf(node, 0)) ? 0 : 1;
      found_.mask = InputOf(node, 1 - i);
      found_.parts.push_back(n);
      return InputOf(node, i);
    }
    if (!IsOp(node, "Where") || found_.condition != kNoValue) return v;
    const size_t i = ScalarOf(graph_, InputOf(node, 1)) ? 2 : 1;
    if (!NumberBeside(graph_, InputOf(node, 3 - i), InputOf(node, i))) return v;
    found_.condition = InputOf(node, 0);
    found_.hidden = InputOf(node, 3 - i);
    found_.condition_hides = i == 2;
    found_.where_last = found_.mask == kNoValue;
    found_.parts.push_back(n);
    return node.inputs[i];
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
  const size_t k_heads = found.k_by_length ? 2 : 1;
  if (!SameDim(q[0], k[0]) || !SameDim(k[0], v[0])) return "queries, keys and values are not known to be of one batch";
  if (!q[1].known() || !SameDim(q[1], k[k_heads]) || !SameDim(k[k_heads], v[1])) {
    return "queries, keys and values are not known to have as many heads";
  }
  return std::nullopt;
}

AttentionLengths LengthsOf(const Graph& graph, const DotProductAttention& found) {
  AttentionLengths out;
  out.key = found.k;
  out.key_axis = found.k_by_length ? 1 : 2;
  const auto &q = graph.value(found.q).shape, &k = graph.value(found.k).shape;
  if (q && q->size() == 4) out.queries = (*q)[2];
  if (k && k->size() == 4) out.keys = (*k)[out.key_axis];
  return out;
}

namespace {

// What is not proven of dims beside scores.
std::optional<std::string> UnprovenDims(const Graph& graph, const DotProductAttention& found, ValueId value,
                                        const AttentionLengths& lengths) {
  const auto& mask = graph.value(value).shape;
  if (!mask || mask->size() < 2 || mask->size() > 4) return "the mask is not known to have two to four axes";
  const Shape& q = *graph.value(found.q).shape;
  if (!SameDim(mask->back(), lengths.keys)) return "the mask is not known to be as long as the keys";
  const Shape scores = {q[0], q[1], q[2], lengths.keys};
  for (size_t i = 0; i + 1 < mask->size(); ++i) {
    const Dim &dim = (*mask)[i], &wanted = scores[4 - mask->size() + i];
    if (dim.value != 1 && !SameDim(dim, wanted)) return "the mask is not known to have the shape of the scores";
  }
  return std::nullopt;
}

// Finite wherever a key doesn't come after its query.
bool LeavesEachItself(const Graph& graph, ValueId mask, const AttentionLengths& lengths) {
  if (IsFinite(graph, mask)) return true;
  const Node* where = MadeBy(graph, mask, "Where");
  if (where == nullptr) return false;
  const auto sees = CausalBools(graph, where->inputs[0], lengths);
  return sees && IsFinite(graph, where->inputs[*sees ? 1 : 2]);
}

}  // namespace

std::optional<std::string> UnprovenMask(const Graph& graph, const DotProductAttention& found,
                                        const AttentionLengths& lengths) {
  if (found.condition != kNoValue) {
    const auto causal = CausalBools(graph, found.condition, lengths);
    const bool sees_itself = causal && *causal != found.condition_hides;
    if (!causal) {
      if (auto unproven = UnprovenDims(graph, found, found.condition, lengths)) return unproven;
    }
    const double hidden = *NumberOf(graph, found.hidden);
    if (!(hidden <= kSwallows)) return "scores are replaced by a number that is not the same as if it were added";
    if (graph.value(found.q).dtype != DType::kFloat) return "scores are replaced in a type other than float32";
    if (std::isinf(hidden) && !sees_itself) return "a query that sees no key has NaN, which the operator has not";
  }
  if (found.mask == kNoValue) return std::nullopt;
  if (auto unproven = UnprovenDims(graph, found, found.mask, lengths)) return unproven;
  if (found.condition != kNoValue ? IsFinite(graph, found.mask) : LeavesEachItself(graph, found.mask, lengths)) {
    return std::nullopt;
  }
  return "the mask may be -infinity, and a query that sees no key then has NaN, which the operator has not";
}

namespace {

struct Added {
  ValueRef value;
  Shape shape;
};

// Mask and condition as one thing to add. The condition's shape is known.
Added AddedBy(const Graph& graph, GraphEdit& edit, const DotProductAttention& found, const std::string& name) {
  const auto shape_of = [&](ValueId v) { return *graph.value(v).shape; };
  if (found.condition == kNoValue) return {ValueRef::Of(found.mask), shape_of(found.mask)};
  const DType dtype = graph.value(found.q).dtype;
  Added seen;
  if (found.mask == kNoValue || !found.where_last) {
    seen.value = edit.AddConstant(name + "_seen", Tensor::Scalar(0.0F));
  } else {
    seen = {ValueRef::Of(found.mask), shape_of(found.mask)};
  }
  const auto joined = [](Shape a, Shape b) {
    if (a.size() < b.size()) std::swap(a, b);
    const size_t skipped = a.size() - b.size();
    for (size_t i = 0; i < b.size(); ++i) {
      if (a[skipped + i].value == 1) a[skipped + i] = b[i];
    }
    return a;
  };
  const Shape condition = shape_of(found.condition);
  std::vector<ValueRef> inputs = {ValueRef::Of(found.condition), seen.value, ValueRef::Of(found.hidden)};
  if (found.condition_hides) std::swap(inputs[1], inputs[2]);
  auto where = NewNodeOf("", "Where", inputs);
  where.name_hint = name + "_hidden";
  seen.shape = joined(condition, seen.shape);
  seen.value = edit.AddNode(std::move(where), dtype, seen.shape);
  if (found.mask == kNoValue || found.where_last) return seen;
  auto add = NewNodeOf("", "Add", {seen.value, ValueRef::Of(found.mask)});
  add.name_hint = name + "_added";
  const Shape both = joined(seen.shape, shape_of(found.mask));
  return {edit.AddNode(std::move(add), dtype, both), both};
}

}  // namespace

std::optional<ValueRef> MaskFor(const PassContext& context, GraphEdit& edit, const DotProductAttention& found,
                                ValueId q, size_t length, const std::string& name) {
  if (found.mask == kNoValue && found.condition == kNoValue) return ValueRef::None();
  if (found.condition != kNoValue && !context.graph().value(found.condition).shape) {
    return context.Miss("the shape of Where's condition is not known");
  }
  const Added mask = AddedBy(context.graph(), edit, found, name);
  const Dim rows = (*context.graph().value(q).shape)[length];
  const size_t rank = mask.shape.size();
  if (SameDim(mask.shape[rank - 2], rows)) return mask.value;
  Shape shape = mask.shape;
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
  auto expand = NewNodeOf("", "Expand", {mask.value, wanted});
  expand.name_hint = name + "_mask";
  return edit.AddNode(std::move(expand), context.graph().value(found.q).dtype, shape);
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
