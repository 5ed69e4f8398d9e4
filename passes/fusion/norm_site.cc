#include "passes/fusion/norm_site.h"

#include <algorithm>

#include "passes/match.h"

namespace quant {
namespace {

// How many axes at the end of `rank` these are; nullopt when they are others, or not in one piece.
std::optional<int64_t> TrailingAxes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  const auto count = static_cast<int64_t>(axes.size());
  for (int64_t i = 0; i < count; ++i) {
    if (axes[static_cast<size_t>(i)] != rank - count + i) return std::nullopt;
  }
  return count;
}

std::optional<int64_t> TrailingAxes(const PassContext& context, const DecomposedNorm& norm, int64_t rank) {
  const Graph& graph = context.graph();
  std::optional<int64_t> count;
  std::vector<NodeId> reductions = norm.means;
  reductions.push_back(norm.variance);
  for (NodeId n : reductions) {
    const Node& node = graph.node(n);
    const auto axes = IntsOf(graph, node, "axes", 1);
    if (!axes || axes->empty()) return context.Miss("the axes of a mean are not known");
    if (node.attributes.Int("keepdims", 1) == 0) return context.Miss("a mean drops its axes");
    const auto these = TrailingAxes(*axes, rank);
    if (!these) return context.Miss("it normalises over axes that are not the last ones");
    if (count && *count != *these) return context.Miss("its two means are over different axes");
    count = these;
  }
  return count;
}

// As a parameter for the axes of these lengths, if its elements are one for each of theirs.
std::optional<NormParameter> ParameterFor(const Graph& graph, ValueId value, const Dims& lengths, DType dtype) {
  if (value == kNoValue || graph.value(value).dtype != dtype) return std::nullopt;
  auto dims = DimsOf(graph, value);
  if (!dims) return std::nullopt;
  if (*dims == lengths) return NormParameter{value, std::nullopt};
  const Tensor* constant = ConstantOf(graph, value);
  while (dims->size() > lengths.size() && dims->front() == 1) dims->erase(dims->begin());
  if (constant == nullptr || *dims != lengths) return std::nullopt;
  return NormParameter{kNoValue, constant->Reshaped(lengths)};
}

template <typename T>
Tensor OnesOf(const Dims& dims) {
  Tensor out = Tensor::Allocate(DTypeOf<T>(), dims);
  const auto data = out.mutable_data<T>();
  std::fill(data.begin(), data.end(), T(1));
  return out;
}

// Narrower types on the way than what goes in would make other numbers.
bool LosesBits(const Graph& graph, const DecomposedNorm& norm, DType dtype) {
  return std::any_of(norm.casts.begin(), norm.casts.end(), [&](NodeId n) {
    const DType to = graph.value(graph.node(n).outputs[0]).dtype;
    return to != DType::kFloat && to != DType::kDouble && to != dtype;
  });
}

// The parts of a site with what comes behind the normalized value.
class Tail {
 public:
  Tail(const PassContext& context, NormSite& site, std::vector<NodeId>& parts, const Dims& lengths)
      : graph_(context.graph()), site_(site), parts_(parts), lengths_(lengths) {}

  // float16 widened for the arithmetic and narrowed after it: the operators do that themselves. False when the result
  // has another type than what goes in.
  bool TakeCasts(DType& dtype) {
    const DType made = graph_.value(Out()).dtype;
    const Node* before = made == dtype ? MadeBy(graph_, site_.x, "Cast") : nullptr;
    const DType inner = before != nullptr ? graph_.value(before->inputs[0]).dtype : dtype;
    const NodeId after = OnlyReader(graph_, Out());
    if (made != DType::kFloat || inner != DType::kFloat16 || after == kNoNode || !Joins(after) ||
        !IsOp(graph_.node(after), "Cast") || graph_.value(graph_.node(after).outputs[0]).dtype != inner) {
      return made == dtype;
    }
    dtype = inner;
    if (before != nullptr) site_.x = before->inputs[0];
    Take(after);
    return true;
  }
  std::optional<NormParameter> TakeOperand(std::string_view op_type, DType dtype) {
    const NodeId reader = OnlyReader(graph_, Out());
    if (reader == kNoNode || !IsOp(graph_.node(reader), op_type) || !Joins(reader)) return std::nullopt;
    const Node& node = graph_.node(reader);
    const ValueId other = node.inputs[0] == Out() ? InputOf(node, 1) : node.inputs[0];
    auto parameter = ParameterFor(graph_, other, lengths_, dtype);
    if (parameter) Take(reader);
    return parameter;
  }

 private:
  ValueId Out() const { return graph_.node(site_.last).outputs[0]; }
  bool Joins(NodeId n) const { return graph_.node(n).region == graph_.node(site_.last).region; }
  void Take(NodeId n) {
    parts_.push_back(n);
    site_.last = n;
  }

  const Graph& graph_;
  NormSite& site_;
  std::vector<NodeId>& parts_;
  const Dims& lengths_;
};

}  // namespace

ValueRef NormParameter::In(GraphEdit& edit, const char* name) const {
  return constant ? edit.AddConstant(name, *constant) : value != kNoValue ? ValueRef::Of(value) : ValueRef::None();
}

std::optional<NormSite> FindNormSite(const PassContext& context, const DecomposedNorm& norm) {
  const Graph& graph = context.graph();
  const auto rank = RankOf(graph, norm.x);
  if (!rank) return context.Miss("the rank of what it normalises is not known");
  const auto axes = TrailingAxes(context, norm, *rank);
  if (!axes) return std::nullopt;
  const Shape& shape = *graph.value(norm.x).shape;
  const auto lengths = StaticDims(Shape(shape.end() - *axes, shape.end()));
  if (!lengths) return context.Miss("the length of the axes it normalises over is not known");
  NormSite site = {.x = norm.x, .axes = *axes, .last = norm.root};
  if (norm.epsilon != kNoValue) {
    const auto epsilon = NumberBeside(graph, norm.epsilon, norm.x);
    if (!epsilon || *epsilon < 0) return context.Miss("its epsilon is no scalar of 0 or more");
    site.epsilon = static_cast<float>(*epsilon);
  }
  DType dtype = graph.value(norm.x).dtype;
  if (LosesBits(graph, norm, dtype)) return context.Miss("it computes in a narrower type than its input's");
  std::vector<NodeId> parts = norm.parts;
  Tail tail(context, site, parts, *lengths);
  if (norm.shift != kNoValue) {
    auto shift = ParameterFor(graph, norm.shift, *lengths, dtype);
    auto scale = norm.scale != kNoValue ? ParameterFor(graph, norm.scale, *lengths, dtype) : NormParameter();
    if (!shift || !scale) return context.Miss("its scale or shift has not the length of the axes it normalises over");
    site.shift = *std::move(shift);
    site.scale = *std::move(scale);
  } else {
    if (!tail.TakeCasts(dtype)) return context.Miss("its result is of another type than what it normalises");
    if (auto scale = tail.TakeOperand("Mul", dtype)) site.scale = *std::move(scale);
    if (!norm.means.empty()) {
      if (auto shift = tail.TakeOperand("Add", dtype)) site.shift = *std::move(shift);
    }
  }
  const ValueId result = graph.node(site.last).outputs[0];
  if (graph.value(result).dtype != dtype || RankOf(graph, result) != rank) {
    return context.Miss("its result is of another type or rank than what it normalises");
  }
  if (dtype != DType::kFloat && dtype != DType::kFloat16) return context.Miss("{} is not handled", NameOf(dtype));
  if (!site.scale.given()) {
    site.scale.constant = dtype == DType::kFloat ? OnesOf<float>(*lengths) : OnesOf<float16>(*lengths);
  }
  if (const auto why = WhyNotFreed(graph, parts, site.last)) return context.Miss("{}", *why);
  site.parts = std::move(parts);
  return site;
}

}  // namespace quant
