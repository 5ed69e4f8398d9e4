#include "passes/convert/speller.h"

#include <numeric>

#include "libquant/model/signature.h"

namespace quant {
namespace {

// No tensor has more.
constexpr int64_t kMostAxes = 64;

Tensor ScalarOfType(DType type, double value) {
  switch (type) {
    case DType::kFloat16:
      return Tensor::Scalar(float16(static_cast<float>(value)));
    case DType::kBfloat16:
      return Tensor::Scalar(bfloat16(static_cast<float>(value)));
    case DType::kDouble:
      return Tensor::Scalar(value);
    default:
      return Tensor::Scalar(static_cast<float>(value));
  }
}

}  // namespace

Speller::Speller(const PassContext& context, NodeId root, size_t typed)
    : context_(context),
      node_(context.graph().node(root)),
      root_(root),
      type_(DTypeOfValue(context.graph(), InputOf(node_, typed))),
      edit_(root) {}

ValueRef Speller::Op(const std::string& op_type, std::vector<ValueRef> inputs, Attributes attributes) {
  return OpOf(op_type == "Shape" ? DType::kInt64 : type_, op_type, std::move(inputs), std::move(attributes));
}

ValueRef Speller::OpOf(DType type, const std::string& op_type, std::vector<ValueRef> inputs, Attributes attributes) {
  GraphEdit::NewNode made{
      context_.graph().NodeLabel(root_) + "/" + op_type, op_type, "", std::move(inputs), {}, std::move(attributes)};
  return edit_.AddNode(std::move(made), type, std::nullopt);
}

std::vector<ValueRef> Speller::Split(ValueRef x, int64_t axis, const std::vector<int64_t>& lengths) {
  auto made = NewNodeOf("", "Split", {x});
  made.name_hint = context_.graph().NodeLabel(root_) + "/Split";
  made.attributes.Set("axis", axis);
  if (context_.opset() >= 13) {
    made.inputs.push_back(Ints("split", lengths));
  } else {
    made.attributes.Set("split", lengths);
  }
  const auto output = std::pair(type_, std::optional<Shape>());
  return edit_.AddNode(std::move(made), std::vector(lengths.size(), output));
}

ValueRef Speller::Unsqueeze(ValueRef x, DType type, const std::vector<int64_t>& axes) {
  if (context_.opset() >= 13) return OpOf(type, "Unsqueeze", {x, Ints("axes", axes)});
  Attributes attributes;
  attributes.Set("axes", axes);
  return OpOf(type, "Unsqueeze", {x}, std::move(attributes));
}

ValueRef Speller::Reshape(ValueRef x, const std::vector<int64_t>& dims) {
  return Op("Reshape", {x, Ints("shape", dims)});
}

ValueRef Speller::Transpose(ValueRef x, const std::vector<int64_t>& perm) {
  Attributes attributes;
  attributes.Set("perm", perm);
  return Op("Transpose", {x}, std::move(attributes));
}

ValueRef Speller::Concat(const std::vector<ValueRef>& parts, int64_t axis) {
  Attributes attributes;
  attributes.Set("axis", axis);
  return Op("Concat", parts, std::move(attributes));
}

ValueRef Speller::Length(ValueRef x, int64_t axis) {
  return OpOf(DType::kInt64, "Gather", {Op("Shape", {x}), Int(axis)});
}

ValueRef Speller::Entry(ValueRef x, int64_t index) { return Op("Gather", {x, Int(index)}); }

ValueRef Speller::Range(ValueRef begin, ValueRef end) { return OpOf(DType::kInt64, "Range", {begin, end, Int(1)}); }

ValueRef Speller::Int(int64_t value) {
  return edit_.AddConstant(context_.graph().NodeLabel(root_) + "_int", Tensor::Scalar(value));
}

ValueRef Speller::Int32(int32_t value) {
  return edit_.AddConstant(context_.graph().NodeLabel(root_) + "_int", Tensor::Scalar(value));
}

ValueRef Speller::Number(double value) {
  return edit_.AddConstant(context_.graph().NodeLabel(root_) + "_number", ScalarOfType(type_, value));
}

ValueRef Speller::Ints(const std::string& hint, const std::vector<int64_t>& values) {
  return edit_.AddConstant(context_.graph().NodeLabel(root_) + "_" + hint,
                           Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueRef Speller::CastTo(ValueRef x, DType type) {
  if (type == type_) return x;
  type_ = type;
  Attributes to;
  to.Set("to", static_cast<int64_t>(type));
  return Op("Cast", {x}, std::move(to));
}

ValueRef Speller::ReduceMean(ValueRef x, const std::vector<int64_t>& axes) {
  Attributes attributes;
  attributes.Set("keepdims", int64_t{1});
  if (context_.opset() >= 18) return Op("ReduceMean", {x, Ints("axes", axes)}, std::move(attributes));
  attributes.Set("axes", axes);
  return Op("ReduceMean", {x}, std::move(attributes));
}

ValueRef Speller::Standardized(ValueRef x, const std::vector<int64_t>& axes, float epsilon) {
  return OverRms(Op("Sub", {x, ReduceMean(x, axes)}), axes, epsilon);
}

ValueRef Speller::OverRms(ValueRef x, const std::vector<int64_t>& axes, float epsilon) {
  const ValueRef mean = ReduceMean(Op("Mul", {x, x}), axes);
  return Op("Div", {x, Op("Sqrt", {Op("Add", {mean, Number(epsilon)})})});
}

std::optional<GraphEdit> Speller::Finish(ValueRef result, std::initializer_list<std::pair<size_t, ValueRef>> others) {
  const DType declared = context_.graph().value(OutputOf(node_, 0)).dtype;
  if (declared != DType::kUndefined && type() != DType::kUndefined && declared != type()) return std::nullopt;
  edit_.Replace(OutputOf(node_, 0), result);
  for (const auto& [i, value] : others) {
    if (OutputOf(node_, i) != kNoValue) edit_.Replace(OutputOf(node_, i), value);
  }
  edit_.Remove(root_);
  return edit_;
}

std::optional<std::vector<int64_t>> AxesFrom(const Graph& graph, ValueId x, int64_t axis) {
  const auto rank = RankOf(graph, x);
  if (axis >= 0 && (!rank || axis >= *rank)) return std::nullopt;
  if (axis < -(rank ? *rank : kMostAxes)) return std::nullopt;
  const int64_t end = axis >= 0 ? *rank : 0;
  std::vector<int64_t> axes(static_cast<size_t>(end - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

std::optional<DType> StashType(const PassContext& context, const Node& node) {
  const DType type = DTypeOfValue(context.graph(), InputOf(node, 0));
  const bool known = type == DType::kFloat || type == DType::kFloat16 || type == DType::kBfloat16;
  return known && node.attributes.Int("stash_type", 1) == 1 ? std::optional(DType::kFloat) : std::nullopt;
}

std::optional<NormOverLastAxes> ReadNorm(const PassContext& context, const Node& node, std::string_view statistics) {
  const Graph& graph = context.graph();
  if (ReadsMore(graph, node, 1)) return context.Miss("its {} is read", statistics);
  const auto stash = StashType(context, node);
  if (!stash) return context.Miss("it does not compute in float32");
  auto axes = AxesFrom(graph, InputOf(node, 0), node.attributes.Int("axis", -1));
  if (!axes) return context.Miss("the rank of its input is not known");
  return NormOverLastAxes{*std::move(axes), *stash, node.attributes.Float("epsilon", 1e-5F)};
}

bool ReadsMore(const Graph& graph, const Node& node, size_t known) {
  for (size_t i = known; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue && !graph.value(node.outputs[i]).uses.empty()) return true;
  }
  return false;
}

}  // namespace quant
