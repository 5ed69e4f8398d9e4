// Attention of several heads, with the product that makes its queries, keys and values, as GPT-2 has it, becomes
// com.microsoft Attention, on targets that have it.
//
//   x ─ MatMul(w) ─ [Add(b)] ─ Split ─┬─ Reshape ─ Transpose ─ q
//                                     ├─ Reshape ─ Transpose ─ [Concat behind past 0] ─ k ─┐
//                                     └─ Reshape ─ Transpose ─ [Concat behind past 1] ─ v ─┴─ [Unsqueeze, Concat] ─
//                                     present
//   q, k, v ─ attention ─ Transpose ─ y [batch, length, heads, size]
//   =>
//   x, w, b, mask, past ─ Attention(num_heads, unidirectional) ─┬─ Reshape ─ y
//                                                               └─ present
//
// A Reshape of y to [batch, length, heads * size] goes as well. The product may be a Gemm between Reshapes, as
// PyTorch writes GPT-2's. past and present are [2, batch, heads, length, size], present an output of the model or
// nothing. What attention is dot_product_attention.h says. Of what is added to scores, the lowest float32 on keys that
// come after a query becomes `unidirectional`, so does Where that hides just them, and Where(mask > 0, 0, number) for
// int32 [batch, keys] becomes mask and mask_filter_value; anything else goes along as attention_bias, of four axes.
//
// Conditions: float32 and float16, constant weights, shapes that prove the above, and nothing but the present reads
// what lies between.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/fusion/attention_heads.h"
#include "passes/fusion/dot_product_attention.h"
#include "passes/match.h"

namespace quant {
namespace {

struct Projection {
  ValueId x = kNoValue, weights = kNoValue, bias = kNoValue;
};

struct Block {
  DotProductAttention found;
  ValueId qkv = kNoValue;  // what is split
  NodeId last = kNoNode;   // the Transpose behind it
  int64_t heads = 0, q_size = 0, v_size = 0;
  JoinedHeads keys, values;
  ValueId past = kNoValue, present = kNoValue;
  Projection from;
  AttentionLengths lengths;
  // Of the mask.
  bool causal = false, adds = true;  // whether there is an attention_bias
  ValueId mask = kNoValue;
  double filter = 0;
};

class Finder {
 public:
  Finder(const PassContext& context, NodeId root) : context_(context), graph_(context.graph()), root_(root) {}

  std::optional<Block> Run() {
    auto found = MatchAttention(graph_, root_);
    if (!found || found->k_by_length) return std::nullopt;
    out_.found = *std::move(found);
    out_.last = OnlyReader(graph_, graph_.node(root_).outputs[0]);
    if (out_.last == kNoNode || graph_.node(out_.last).region != graph_.node(root_).region) return std::nullopt;
    if (BeforeHeadSwap(graph_, OutputOf(graph_.node(out_.last), 0)) == kNoValue) return std::nullopt;
    out_.keys = SplitPast(graph_, out_.found.k);
    out_.values = SplitPast(graph_, out_.found.v);
    if (!FindSplit()) return std::nullopt;
    if (!context_.MayMake("com.microsoft", "Attention")) {
      return context_.Miss("the target has no com.microsoft Attention");
    }
    if (!FindPast()) return context_.Miss("keys and values of its past are not the two halves of one value");
    FindPresent();
    ReadMask();
    return std::move(out_);
  }

 private:
  // The part of [batch, length, all heads] that is cut into heads and transposed; its size by head is `size`.
  ValueId PartOf(ValueId value, int64_t& size) {
    const Node* reshape = MadeBy(graph_, BeforeHeadSwap(graph_, value), "Reshape");
    if (reshape == nullptr || HasReferences(*reshape) || reshape->attributes.Int("allowzero", 0) != 0) return kNoValue;
    const auto &to = graph_.value(reshape->outputs[0]).shape, &from = graph_.value(reshape->inputs[0]).shape;
    if (!to || !from || to->size() != 4 || from->size() != 3) return kNoValue;
    const Dim &heads = (*to)[2], &by_head = (*to)[3];
    if (heads.value < 1 || by_head.value < 1 || heads.value * by_head.value != (*from)[2].value) return kNoValue;
    const auto dims = IntsOf(graph_, InputOf(*reshape, 1));
    const auto keeps = [&](size_t i) { return (dims && (*dims)[i] == 0) || SameDim((*to)[i], (*from)[i]); };
    const auto is_rest = [&](size_t i) { return dims && (*dims)[i] == -1; };
    if (!(keeps(0) && (keeps(1) || is_rest(1))) && !(keeps(1) && is_rest(0))) return kNoValue;
    if (out_.heads != 0 && out_.heads != heads.value) return kNoValue;
    out_.heads = heads.value;
    size = by_head.value;
    return reshape->inputs[0];
  }

  bool FindSplit() {
    int64_t q_size = 0, k_size = 0, v_size = 0;
    const ValueId q = PartOf(out_.found.q, q_size), k = PartOf(out_.keys.fresh, k_size),
                  v = PartOf(out_.values.fresh, v_size);
    const NodeId n = ProducerOf(graph_, q);
    if (n == kNoNode || q_size != k_size || HasReferences(graph_.node(n))) return false;
    const Node& split = graph_.node(n);
    const int64_t axis = split.attributes.Int("axis", 0);
    if (!IsOp(split, "Split") || (axis != 2 && axis != -1) || split.outputs != std::vector<ValueId>{q, k, v})
      return false;
    out_.q_size = q_size;
    out_.v_size = v_size;
    out_.qkv = split.inputs[0];
    return FindProduct(out_.qkv);
  }

  bool IsMatrix(ValueId v, int64_t columns) const {
    const Tensor* constant = ConstantOf(graph_, v);
    return constant != nullptr && constant->rank() == 2 && constant->dims()[1] == columns;
  }
  bool IsVector(ValueId v, int64_t length) const {
    const Tensor* constant = ConstantOf(graph_, v);
    return constant != nullptr && constant->dims() == Dims{length};
  }

  bool FindProduct(ValueId qkv) {
    const int64_t columns = out_.heads * (2 * out_.q_size + out_.v_size);
    Projection& from = out_.from;
    if (const Node* reshape = MadeBy(graph_, qkv, "Reshape")) return FindGemm(*reshape, columns);
    if (const Node* add = MadeBy(graph_, qkv, "Add")) {
      const auto split = SplitConstant(graph_, *add);
      if (!split || !IsVector(split->second, columns)) return false;
      from.bias = split->second;
      qkv = split->first;
    }
    const Node* product = MadeBy(graph_, qkv, "MatMul");
    if (product == nullptr || !IsMatrix(InputOf(*product, 1), columns)) return false;
    from.x = product->inputs[0];
    from.weights = product->inputs[1];
    return RankOf(graph_, from.x) == 3;
  }
  // Reshape(Gemm(Reshape(x))), which is done by row.
  bool FindGemm(const Node& after, int64_t columns) {
    const Node* gemm = MadeBy(graph_, after.inputs[0], "Gemm");
    const Node* before = gemm != nullptr ? MadeBy(graph_, gemm->inputs[0], "Reshape") : nullptr;
    if (before == nullptr || HasReferences(*gemm) || !IsMatrix(InputOf(*gemm, 1), columns)) return false;
    const Attributes& a = gemm->attributes;
    if (a.Int("transA", 0) != 0 || a.Int("transB", 0) != 0 || a.Float("alpha", 1) != 1 || a.Float("beta", 1) != 1) {
      return false;
    }
    const ValueId x = before->inputs[0];
    const auto &in = graph_.value(x).shape, &out = graph_.value(after.outputs[0]).shape;
    const int64_t rows = ConstantOf(graph_, gemm->inputs[1])->dims()[0];
    if (!in || !out || in->size() != 3 || out->size() != 3 || in->back().value != rows) return false;
    if (!SameDim((*in)[0], (*out)[0]) || !SameDim((*in)[1], (*out)[1])) return false;
    const ValueId bias = InputOf(*gemm, 2);
    if (bias != kNoValue && !IsVector(bias, columns)) return false;
    out_.from = {x, gemm->inputs[1], bias};
    return true;
  }

  bool FindPast() {
    if (out_.keys.past == kNoValue && out_.values.past == kNoValue) return true;
    const auto k = EntryOf(graph_, out_.keys.past), v = EntryOf(graph_, out_.values.past);
    if (!k || !v || k->of != v->of || k->index != 0 || v->index != 1 || out_.q_size != out_.v_size) return false;
    out_.past = k->of;
    const auto &past = graph_.value(out_.past).shape, &x = graph_.value(out_.from.x).shape;
    return past && x && past->size() == 5 && (*past)[0].value == 2 && SameDim((*past)[1], (*x)[0]) &&
           (*past)[2].value == out_.heads && (*past)[4].value == out_.q_size;
  }

  // Of a Concat of both, if there is one.
  void FindPresent() {
    for (const Use& use : graph_.value(out_.found.k).uses) {
      if (use.node == kNoNode || !IsOp(graph_.node(use.node), "Unsqueeze")) continue;
      const NodeId n = OnlyReader(graph_, graph_.node(use.node).outputs[0]);
      if (n == kNoNode || !IsOp(graph_.node(n), "Concat") || HasReferences(graph_.node(n))) continue;
      const Node& concat = graph_.node(n);
      if (concat.inputs.size() != 2 || concat.attributes.Int("axis", -1) != 0) continue;
      const ValueId k = FromUnsqueeze(concat.inputs[0]), v = FromUnsqueeze(concat.inputs[1]);
      if (k == out_.found.k && v == out_.found.v) out_.present = concat.outputs[0];
    }
  }
  ValueId FromUnsqueeze(ValueId value) const {
    const Node* unsqueeze = MadeBy(graph_, value, "Unsqueeze");
    if (unsqueeze == nullptr) return kNoValue;
    const auto axes = IntsOf(graph_, *unsqueeze, "axes", 1);
    return axes && *axes == std::vector<int64_t>{0} ? unsqueeze->inputs[0] : kNoValue;
  }

  void ReadMask() {
    out_.lengths = LengthsOf(graph_, out_.found);
    AttentionLengths& lengths = out_.lengths;
    const auto& x = graph_.value(out_.from.x).shape;
    if (!lengths.queries.known() && x) lengths.queries = (*x)[1];
    if (out_.past != kNoValue) {
      lengths.past = out_.past;
      lengths.past_axis = 3;
    } else {
      lengths.keys = lengths.queries;
    }
    // What a caller calls the present's length, inference has no name for inside of the model.
    if (out_.present != kNoValue && RankOf(graph_, out_.present) == 5) {
      const Dim& length = (*graph_.value(out_.present).shape)[3];
      if (length.known() || !length.symbol.empty()) lengths.keys = length;
    }
    const DotProductAttention& found = out_.found;
    if (graph_.value(found.q).dtype != DType::kFloat) return;
    if (found.mask == kNoValue) {
      out_.adds = found.condition != kNoValue;
      if (!out_.adds) return;
      const auto sees = CausalBools(graph_, found.condition, lengths);
      out_.causal = sees && *sees != found.condition_hides && *NumberOf(graph_, found.hidden) <= -1e30;
      out_.adds = !out_.causal;
    } else if (found.condition == kNoValue) {
      ReadAdded(found.mask);
    }
  }

  // Where(later, lowest, rest), and the padding that it or the rest is.
  void ReadAdded(ValueId added) {
    if (const Node* where = MadeBy(graph_, added, "Where")) {
      const auto sees = CausalBools(graph_, where->inputs[0], out_.lengths);
      const ValueId rest = sees ? where->inputs[*sees ? 1 : 2] : kNoValue;
      if (!sees || NumberOf(graph_, where->inputs[*sees ? 2 : 1]) != double{std::numeric_limits<float>::lowest()})
        return;
      const bool nothing = IsConstantOf(graph_, rest, 0) && ConstantOf(graph_, rest)->size() == 1;
      if (!nothing && !ReadPadding(rest)) return;
      out_.causal = true;
      out_.adds = false;
      return;
    }
    out_.adds = !ReadPadding(added);
  }
  bool ReadPadding(ValueId added) {
    const Node* unsqueeze = MadeBy(graph_, added, "Unsqueeze");
    if (unsqueeze == nullptr) return false;
    const auto axes = IntsOf(graph_, *unsqueeze, "axes", 1);
    const Node* where = MadeBy(graph_, unsqueeze->inputs[0], "Where");
    if (!axes || *axes != std::vector<int64_t>{1, 2} || where == nullptr) return false;
    const Node* greater = MadeBy(graph_, where->inputs[0], "Greater");
    const auto filter = NumberOf(graph_, where->inputs[2]);
    if (greater == nullptr || !filter || !std::isfinite(*filter) || !IsConstantOf(graph_, where->inputs[1], 0))
      return false;
    const ValueId mask = greater->inputs[0];
    if (!IsConstantOf(graph_, greater->inputs[1], 0) || graph_.value(mask).dtype != DType::kInt32) return false;
    const auto &shape = graph_.value(mask).shape, &x = graph_.value(out_.from.x).shape;
    if (!shape || shape->size() != 2 || !x || !SameDim((*shape)[0], (*x)[0])) return false;
    if (!SameDim((*shape)[1], out_.lengths.keys)) return false;
    out_.mask = mask;
    out_.filter = *filter;
    return true;
  }

  const PassContext& context_;
  const Graph& graph_;
  NodeId root_;
  Block out_;
};

// What stands against the rewrite.
std::optional<std::string> WhyNot(const Graph& graph, const Block& block) {
  const DType dtype = graph.value(block.from.x).dtype;
  if (dtype != DType::kFloat && dtype != DType::kFloat16) return "its type is not handled";
  if (block.adds) {
    const DotProductAttention& found = block.found;
    if (auto unproven = UnprovenMask(graph, found, block.lengths)) return unproven;
    for (ValueId v : {found.mask, found.condition}) {
      if (v != kNoValue && RankOf(graph, v) != 4) return "the mask has not four axes";
    }
    if (found.mask != kNoValue && graph.value(found.mask).dtype != dtype) return "the mask is of another type";
  }
  if (block.present != kNoValue) {
    const auto& uses = graph.value(block.present).uses;
    if (!std::all_of(uses.begin(), uses.end(), [](const Use& use) { return use.node == kNoNode; })) {
      return "the present is read inside of the model";
    }
  }
  std::vector<NodeId> parts = block.found.parts;
  parts.push_back(block.last);
  std::vector<NodeId> replaced;
  if (block.present != kNoValue) replaced.push_back(ProducerOf(graph, block.present));
  for (NodeId part : parts) {
    if (graph.node(part).region != graph.node(block.last).region) return "part of it lies outside of the body";
  }
  if (!Vanishes(graph, block.qkv, parts, replaced)) return "queries, keys or values have another reader";
  if (auto why = WhyNotFreed(graph, block.found.parts, block.found.parts.front())) return why;
  return std::nullopt;
}

// ONNX Runtime 1.30 crashes where there is no bias.
Tensor Zeros(DType dtype, int64_t length) {
  const auto count = static_cast<size_t>(length);
  if (dtype == DType::kFloat16) return Tensor::Of<float16>({length}, std::vector<float16>(count, float16(0.0F)));
  return Tensor::Of<float>({length}, std::vector<float>(count, 0));
}

// `y`, [batch, length, all heads], takes the place of the Reshape to that behind the last Transpose; where there is
// none, it is cut into heads.
void ReplaceLast(const Graph& graph, const Block& block, GraphEdit& edit, ValueRef y) {
  const ValueId out = graph.node(block.last).outputs[0];
  const NodeId n = OnlyReader(graph, out);
  if (n != kNoNode && IsOp(graph.node(n), "Reshape") && graph.node(n).region == graph.node(block.last).region) {
    const ValueId flat = graph.node(n).outputs[0];
    const auto &to = graph.value(flat).shape, &x = graph.value(block.from.x).shape;
    const bool same = to && to->size() == 3 && SameDim((*to)[0], (*x)[0]) && SameDim((*to)[1], (*x)[1]);
    const auto wanted = IntsOf(graph, InputOf(graph.node(n), 1));
    const std::vector<int64_t> copied = {0, 0, block.heads * block.v_size};
    if (same || (wanted == copied && graph.node(n).attributes.Int("allowzero", 0) == 0)) return edit.Replace(flat, y);
  }
  const std::vector<int64_t> dims = {0, 0, block.heads, block.v_size};
  const ValueRef wanted = edit.AddConstant(graph.node(block.last).name + "_shape", Tensor::Of<int64_t>({4}, dims));
  edit.ReplaceNode(block.last, NewNodeOf("", "Reshape", {y, wanted}));
}

std::optional<GraphEdit> Rewrite(const PassContext& context, const Block& block) {
  const Graph& graph = context.graph();
  const std::string& name = graph.node(block.last).name;
  GraphEdit edit(block.last);
  ValueRef added = ValueRef::None();
  if (block.adds) {
    const auto made = MaskFor(context, edit, block.found, block.found.q, 2, name);
    if (!made) return std::nullopt;
    added = *made;
  }
  const Projection& from = block.from;
  const int64_t q_width = block.heads * block.q_size, v_width = block.heads * block.v_size;
  const Value& x = graph.value(from.x);
  ValueRef bias = ValueRef::Of(from.bias);
  if (from.bias == kNoValue) bias = edit.AddConstant(name + "_bias", Zeros(x.dtype, 2 * q_width + v_width));
  auto node = NewNodeOf("com.microsoft", "Attention",
                        {ValueRef::Of(from.x), ValueRef::Of(from.weights), bias, ValueRef::Of(block.mask),
                         ValueRef::Of(block.past), added});
  while (node.inputs.back().id == kNoValue && node.inputs.back().made < 0) node.inputs.pop_back();
  node.name_hint = name + "_attention";
  node.attributes.Set("num_heads", block.heads);
  if (block.causal) node.attributes.Set("unidirectional", int64_t{1});
  if (block.mask != kNoValue) node.attributes.Set("mask_filter_value", static_cast<float>(block.filter));
  node.attributes.Set("scale", static_cast<float>(block.found.scale));
  if (q_width != v_width) {
    node.attributes.Set("qkv_hidden_sizes", std::vector<int64_t>{q_width, q_width, v_width});
  }
  std::vector<std::pair<DType, std::optional<Shape>>> outputs = {
      {x.dtype, Shape{(*x.shape)[0], (*x.shape)[1], {v_width, ""}}}};
  if (block.present != kNoValue) outputs.emplace_back(x.dtype, graph.value(block.present).shape);
  const auto made = edit.AddNode(std::move(node), outputs);
  ReplaceLast(graph, block, edit, made[0]);
  if (block.present != kNoValue) edit.Replace(block.present, made[1]);
  return edit;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const auto block = Finder(context, root).Run();
  if (!block) return std::nullopt;
  if (const auto why = WhyNot(context.graph(), *block)) return context.Miss("{}", *why);
  return Rewrite(context, *block);
}

}  // namespace

const Pass& FuseSelfAttentionPass() {
  static const Pass pass = {
      .name = "fuse-self-attention",
      .summary =
          "Attention with the product that makes its queries, keys and values becomes com.microsoft "
          "Attention",
      .roots = {"MatMul"},
      .rule = Fuse};
  return pass;
}

}  // namespace quant
