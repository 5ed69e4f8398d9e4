// com.microsoft Attention in basic operators.
//
//   Attention(x, weights, bias, mask, past)
//   =>
//   x ─ MatMul(weights) ─ Add(bias) ─ Split ─┬─ Reshape ─ Transpose ─ q
//                                            ├─ Reshape ─ Transpose ─ [Concat behind past 0] ─ k
//                                            └─ Reshape ─ Transpose ─ [Concat behind past 1] ─ v
//   q ─ MatMul(k') ─ Mul(scale) ─ [Add(attention_bias)] ─ [Add(mask)] ─ Softmax ─ MatMul(v) ─ Transpose ─ Reshape ─ y
//   k, v ─ Unsqueeze ─ Concat ─ present
//
// A mask of [batch, keys], [batch, queries, keys] or, as the number of keys each sample has, [batch] becomes
// Where(visible, 0, mask_filter_value); with `unidirectional` the keys that come after a query get the lowest float32
// instead, as in ONNX Runtime.
//
// Conditions: float32, and weights of known width. Opset 11 where keys are counted (Range). Not do_rotary, not a past
// that shares its buffer with the present, not masks of four axes or with the first key of each sample. Not a
// mask_filter_value of -infinity, which would make NaN where ONNX Runtime gives 0.
#include <cmath>
#include <limits>

#include "passes/convert/speller.h"

namespace quant {
namespace {

enum Input { kX, kWeights, kBias, kMask, kPast, kAttentionBias, kPastLength };

struct Sizes {
  int64_t heads = 0, q = 0, v = 0;  // of all heads
};

std::optional<Sizes> SizesOf(const Graph& graph, const Node& node) {
  Sizes out;
  out.heads = node.attributes.Int("num_heads", 0);
  const auto sizes = node.attributes.Ints("qkv_hidden_sizes");
  if (sizes.size() == 3 && sizes[0] == sizes[1]) {
    out.q = sizes[0];
    out.v = sizes[2];
  } else if (sizes.empty() && RankOf(graph, InputOf(node, kWeights)) == 2) {
    const int64_t width = graph.value(node.inputs[kWeights]).shape->back().value;
    if (width % 3 == 0) out.q = out.v = width / 3;
  }
  if (out.heads < 1 || out.q < 1 || out.v < 1 || out.q % out.heads != 0 || out.v % out.heads != 0) return std::nullopt;
  return out;
}

// What stands against it; nullptr: nothing.
const char* WhyNot(const PassContext& context, const Node& node) {
  const Graph& graph = context.graph();
  const Attributes& attributes = node.attributes;
  if (node.inputs.size() < 2 || graph.value(node.inputs[kX]).dtype != DType::kFloat) return "its input is not float32";
  if (attributes.Int("do_rotary", 0) != 0) return "it turns queries and keys (do_rotary)";
  if (attributes.Int("past_present_share_buffer", 0) != 0 || InputOf(node, kPastLength) != kNoValue) {
    return "its past shares a buffer with the present";
  }
  if (!std::isfinite(attributes.Float("mask_filter_value", -10000))) return "its mask_filter_value is not finite";
  const bool causal = attributes.Int("unidirectional", 0) != 0;
  const ValueId mask = InputOf(node, kMask);
  if (mask != kNoValue) {
    const auto& shape = graph.value(mask).shape;
    const auto& x = graph.value(node.inputs[kX]).shape;
    if (!shape || shape->empty() || shape->size() > 3) return "its mask is not known to have one to three axes";
    if (shape->size() == 1 && (!x || !SameDim(shape->front(), x->front()))) {
      return "its mask is not known to be a number of keys for each sample";
    }
  }
  const bool counts = causal || (mask != kNoValue && graph.value(mask).shape->size() == 1);
  return counts && context.opset() < 11 ? "counting keys needs opset 11" : nullptr;
}

class Writer {
 public:
  Writer(const PassContext& context, NodeId root, const Sizes& sizes)
      : graph_(context.graph()), node_(graph_.node(root)), sizes_(sizes), spell_(context, root) {}

  std::optional<GraphEdit> Run() {
    ValueRef qkv = spell_.Op("MatMul", {spell_.Input(kX), spell_.Input(kWeights)});
    if (spell_.HasInput(kBias)) qkv = spell_.Op("Add", {qkv, spell_.Input(kBias)});
    const auto parts = spell_.Split(qkv, 2, {sizes_.q, sizes_.q, sizes_.v});
    const ValueRef q = ByHead(parts[0], sizes_.q);
    k_ = ByHead(parts[1], sizes_.q);
    ValueRef v = ByHead(parts[2], sizes_.v);
    if (spell_.HasInput(kPast)) {
      k_ = spell_.Concat({spell_.Entry(spell_.Input(kPast), 0), k_}, 2);
      v = spell_.Concat({spell_.Entry(spell_.Input(kPast), 1), v}, 2);
    }
    const float given = node_.attributes.Float("scale", 0);
    const int64_t size = sizes_.q / sizes_.heads;
    const ValueRef scale = spell_.Number(given != 0 ? given : 1 / std::sqrt(static_cast<float>(size)));
    ValueRef scores = spell_.Op("MatMul", {q, spell_.Transpose(k_, {0, 1, 3, 2})});
    scores = spell_.Op("Mul", {scores, scale});
    if (spell_.HasInput(kAttentionBias)) scores = spell_.Op("Add", {scores, spell_.Input(kAttentionBias)});
    if (const auto mask = Mask()) scores = spell_.Op("Add", {scores, *mask});
    Attributes last;
    last.Set("axis", int64_t{3});
    const ValueRef y = spell_.Op("MatMul", {spell_.Op("Softmax", {scores}, std::move(last)), v});
    const ValueRef flat = spell_.Reshape(spell_.Transpose(y, {0, 2, 1, 3}), {0, 0, sizes_.v});
    const ValueId present = OutputOf(node_, 1);
    if (present == kNoValue || graph_.value(present).uses.empty()) return spell_.Finish(flat);
    const DType type = spell_.type();
    return spell_.Finish(flat,
                         {{1, spell_.Concat({spell_.Unsqueeze(k_, type, {0}), spell_.Unsqueeze(v, type, {0})}, 0)}});
  }

 private:
  // [batch, length, size] as [batch, heads, length, size of a head].
  ValueRef ByHead(ValueRef x, int64_t size) {
    return spell_.Transpose(spell_.Reshape(x, {0, 0, sizes_.heads, size / sizes_.heads}), {0, 2, 1, 3});
  }

  // [keys], and [queries, 1] of the numbers of the keys that the queries belong to.
  ValueRef Keys() { return spell_.Range(spell_.Int(0), spell_.Length(k_, 2)); }
  ValueRef Queries() {
    const ValueRef count = spell_.Length(k_, 2);
    const ValueRef past = spell_.OpOf(DType::kInt64, "Sub", {count, spell_.Length(spell_.Input(kX), 1)});
    return spell_.Unsqueeze(spell_.Range(past, count), DType::kInt64, {1});
  }

  std::optional<ValueRef> Mask() {
    std::optional<ValueRef> out;
    if (spell_.HasInput(kMask)) out = Padding();
    if (node_.attributes.Int("unidirectional", 0) == 0) return out;
    const ValueRef later = spell_.OpOf(DType::kBool, "Less", {Queries(), Keys()});
    const ValueRef lowest = spell_.Number(std::numeric_limits<float>::lowest());
    return spell_.Op("Where", {later, lowest, out ? *out : spell_.Number(0)});
  }

  // 0 or the filter value: [batch, 1, 1 or queries, keys].
  ValueRef Padding() {
    const ValueRef mask = spell_.Input(kMask);
    const size_t rank = graph_.value(mask.id).shape->size();
    ValueRef visible;
    if (rank == 1) {
      Attributes to;
      to.Set("to", static_cast<int64_t>(DType::kInt64));
      const ValueRef counts = spell_.OpOf(DType::kInt64, "Cast", {mask}, std::move(to));
      visible = spell_.OpOf(DType::kBool, "Less", {Keys(), spell_.Unsqueeze(counts, DType::kInt64, {1})});
    } else {
      visible = spell_.OpOf(DType::kBool, "Greater", {mask, spell_.Int32(0)});
    }
    const ValueRef hidden = spell_.Number(node_.attributes.Float("mask_filter_value", -10000));
    const ValueRef numbers = spell_.Op("Where", {visible, spell_.Number(0), hidden});
    return spell_.Unsqueeze(numbers, spell_.type(), rank == 3 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2});
  }

  const Graph& graph_;
  const Node& node_;
  Sizes sizes_;
  Speller spell_;
  ValueRef k_;
};

std::optional<GraphEdit> Decompose(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsOp(node, "com.microsoft", "Attention") || HasReferences(node)) return std::nullopt;
  if (const char* why = WhyNot(context, node)) return context.Miss("{}", why);
  const auto sizes = SizesOf(graph, node);
  if (!sizes) return context.Miss("the sizes of its queries, keys and values are not known");
  return Writer(context, root, *sizes).Run();
}

}  // namespace

const Pass& DecomposeAttentionPass() {
  static const Pass pass = {.name = "decompose-attention",
                            .summary = "com.microsoft Attention in basic operators",
                            .roots = {"Attention"},
                            .rule = Decompose};
  return pass;
}

}  // namespace quant
