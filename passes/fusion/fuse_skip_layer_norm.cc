// The sum before a LayerNormalization or RMS normalization goes into it, as com.microsoft SkipLayerNormalization or
// SkipSimplifiedLayerNormalization, on targets that have them.
//
//   a ─┐
//   b ─ Add ─┬─ LayerNormalization(gamma, beta) ─ y        a, b ─ SkipLayerNormalization(gamma, beta) ─┬─ y
//            └─ s                                   =>                                                 └─ s
//
// The normalization may be spelled out (decomposed_norm.h), so that models of any opset are served. a and b have the
// same shape of 2 or 3 axes; the last one alone is normalized. gamma and beta are constants. A constant vector that is
// added to a or b, and to nothing else, becomes the operator's bias. Other readers of the sum get the operator's
// output 3.
#include <algorithm>

#include "passes/fusion/norm_site.h"
#include "passes/match.h"

namespace quant {
namespace {

struct Normalization {
  NormSite site;
  bool centred = true;
};

// A normalization that is one operator already.
std::optional<Normalization> FromOperator(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const bool centred = IsOp(node, "LayerNormalization");
  if (!centred && !IsOp(node, "RMSNormalization") && !IsOp(node, "SimplifiedLayerNormalization")) return std::nullopt;
  Normalization out;
  out.centred = centred;
  out.site.x = InputOf(node, 0);
  out.site.scale.value = InputOf(node, 1);
  out.site.shift.value = centred ? InputOf(node, 2) : kNoValue;
  out.site.last = root;
  out.site.parts = {root};
  out.site.epsilon = node.attributes.Float("epsilon", 1e-5F);
  const auto rank = RankOf(graph, out.site.x);
  if (!rank || HasReferences(node)) return std::nullopt;
  const int64_t axis = node.attributes.Int("axis", -1);
  if (axis < -*rank || axis >= *rank) return std::nullopt;
  out.site.axes = axis < 0 ? -axis : *rank - axis;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue && !graph.value(node.outputs[i]).uses.empty()) {
      return context.Miss("its mean or deviation is read");
    }
  }
  return out;
}

std::optional<Normalization> FindNormalization(const PassContext& context, NodeId root) {
  if (auto from = FromOperator(context, root)) return from;
  const auto norm = MatchDecomposedNorm(context.graph(), root);
  if (!norm || MadeBy(context.graph(), norm->x, "Add") == nullptr) return std::nullopt;
  auto site = FindNormSite(context, *norm);
  if (!site) return std::nullopt;
  return Normalization{*std::move(site), !norm->means.empty()};
}

// A constant of one number for each element of the last axis.
bool IsVector(const Graph& graph, const NormParameter& parameter, int64_t length, DType dtype) {
  const Tensor* constant = parameter.constant ? &*parameter.constant : ConstantOf(graph, parameter.value);
  return constant != nullptr && constant->dtype() == dtype && constant->dims() == Dims{length};
}

struct Summands {
  ValueId a = kNoValue, b = kNoValue, bias = kNoValue;
};

// What `add` sums, with a bias taken out of one of the two.
Summands SummandsOf(const Graph& graph, const Node& add, int64_t length) {
  Summands out = {InputOf(add, 0), InputOf(add, 1)};
  for (ValueId* summand : {&out.a, &out.b}) {
    const Node* inner = MadeBy(graph, *summand, "Add");
    if (inner == nullptr || inner->region != add.region || !HasOneReader(graph, *summand)) continue;
    const auto split = SplitConstant(graph, *inner);
    if (!split || graph.value(split->second).constant->dims() != Dims{length}) continue;
    if (!SameShape(graph, split->first, *summand)) continue;
    out.bias = split->second;
    *summand = split->first;
    break;
  }
  return out;
}

// Whether all readers of the sum go with the normalization.
bool OnlyNormalized(const Graph& graph, const NormSite& site) {
  const auto& uses = graph.value(site.x).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.node != kNoNode && std::find(site.parts.begin(), site.parts.end(), use.node) != site.parts.end();
  });
}

// The parameter as an input of a node at the sum, where a Constant node that makes it may be too late.
ValueRef Early(const Graph& graph, GraphEdit& edit, const NormParameter& parameter, const char* name) {
  if (parameter.value == kNoValue || graph.value(parameter.value).producer == kNoNode) return parameter.In(edit, name);
  return edit.AddConstant(graph.value(parameter.value).name, *graph.value(parameter.value).constant);
}

GraphEdit Rewrite(const Graph& graph, const Normalization& norm, const Summands& in) {
  const NormSite& site = norm.site;
  const NodeId add = ProducerOf(graph, site.x);
  const bool alone = OnlyNormalized(graph, site);
  GraphEdit edit(alone ? site.last : add);
  const std::string_view name = norm.centred ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization";
  const auto parameter = [&](const NormParameter& p, const char* hint) {
    return alone ? p.In(edit, hint) : Early(graph, edit, p, hint);
  };
  auto node =
      NewNodeOf("com.microsoft", name, {ValueRef::Of(in.a), ValueRef::Of(in.b), parameter(site.scale, "scale")});
  if (norm.centred) node.inputs.push_back(parameter(site.shift, "shift"));
  node.inputs.push_back(ValueRef::Of(in.bias));
  while (node.inputs.back().id == kNoValue && node.inputs.back().made < 0) node.inputs.pop_back();
  node.attributes.Set("epsilon", site.epsilon);
  if (alone) {
    edit.ReplaceNode(site.last, std::move(node));
    return edit;
  }
  node.name_hint = graph.node(site.last).name;
  const Value &y = graph.value(graph.node(site.last).outputs[0]), &sum = graph.value(site.x);
  const auto none = std::pair(DType::kUndefined, std::optional<Shape>());
  const auto outputs =
      edit.AddNode(std::move(node), {std::pair(y.dtype, y.shape), none, none, std::pair(sum.dtype, sum.shape)});
  edit.Replace(graph.node(site.last).outputs[0], outputs[0]);
  edit.Replace(site.x, outputs[3]);
  return edit;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const auto norm = FindNormalization(context, root);
  if (!norm) return std::nullopt;
  const Node* add = MadeBy(graph, norm->site.x, "Add");
  if (add == nullptr) return std::nullopt;
  const std::string_view name = norm->centred ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization";
  if (!context.MayMake("com.microsoft", name)) return context.Miss("the target has no com.microsoft {}", name);
  const Value& sum = graph.value(norm->site.x);
  const auto rank = RankOf(graph, norm->site.x);
  if (!rank || (*rank != 2 && *rank != 3) || norm->site.axes != 1) {
    return context.Miss("it takes the last of 2 or 3 axes");
  }
  const int64_t length = sum.shape->back().value;
  if (add->region != graph.node(root).region) return context.Miss("the sum lies outside of the body");
  if (sum.dtype != DType::kFloat && sum.dtype != DType::kFloat16) {
    return context.Miss("{} is not handled", NameOf(sum.dtype));
  }
  if (length <= 0 || !IsVector(graph, norm->site.scale, length, sum.dtype) ||
      (norm->site.shift.given() && !IsVector(graph, norm->site.shift, length, sum.dtype))) {
    return context.Miss("its scale and shift are no constants of the last axis's length");
  }
  if (!SameShape(graph, InputOf(*add, 0), InputOf(*add, 1))) {
    return context.Miss("the two summands are not known to have the same shape");
  }
  return Rewrite(graph, *norm, SummandsOf(graph, *add, length));
}

}  // namespace

const Pass& FuseSkipLayerNormPass() {
  static const Pass pass = {
      .name = "fuse-skip-layer-norm",
      .summary =
          "A sum goes into the normalization behind it, as com.microsoft "
          "SkipLayerNormalization",
      .roots = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "Div", "Mul", "Add"},
      .rule = Fuse};
  return pass;
}

}  // namespace quant
