#include "libquant/model/node_rewrite.h"

namespace quant {

Status NodeRewrite::CheckKnown(std::string_view attribute) {
  const Attribute* found = node().attributes.Find(attribute);
  if (found == nullptr || found->ref_name.empty()) return OkStatus();
  return Unsupported("{} of {} is a function's parameter, which an input cannot be", attribute, node().op_type);
}

ValueId NodeRewrite::Before(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes) {
  Value value;
  value.name = graph_.FreshName(graph_.NodeLabel(id_) + "_" + op_type);
  value.region = node().region;
  const ValueId id = graph_.AddValue(std::move(value));
  Node made;
  made.name = graph_.FreshName(graph_.NodeLabel(id_) + "/" + op_type);
  made.op_type = op_type;
  made.region = node().region;
  made.inputs = std::move(inputs);
  made.outputs = {id};
  made.attributes = std::move(attributes);
  graph_.MoveBefore(graph_.AddNode(std::move(made)), id_);
  return id;
}

Status NodeRewrite::IntsToInput(std::string_view attribute, int32_t index) {
  RETURN_IF_ERROR(CheckKnown(attribute));
  if (!node().attributes.Has(attribute)) return OkStatus();
  const std::vector<int64_t> ints = node().attributes.Ints(attribute);
  node().attributes.Remove(attribute);
  const auto count = static_cast<int64_t>(ints.size());
  graph_.SetInput(id_, index,
                  Constant(graph_.NodeLabel(id_) + "_" + std::string(attribute), Tensor::Of<int64_t>({count}, ints)));
  return OkStatus();
}

StatusOr<Tensor> NodeRewrite::ScalarLikeInput(float value) {
  const DType dtype = graph_.value(node().inputs.at(0)).dtype;
  switch (dtype) {
    case DType::kFloat:
      return Tensor::Scalar(value);
    case DType::kFloat16:
      return Tensor::Scalar(float16(value));
    case DType::kDouble:
      return Tensor::Scalar(static_cast<double>(value));
    default:
      return Unsupported("the element type of {}'s input is not known", node().op_type);
  }
}

bool NodeRewrite::IsEmptyConstant(size_t input) const {
  const Node& n = graph_.node(id_);
  if (input >= n.inputs.size() || n.inputs[input] == kNoValue) return false;
  const auto& constant = graph_.value(n.inputs[input]).constant;
  return constant && constant->size() == 0;
}

void NodeRewrite::Behind(const std::string& op_type, std::vector<ValueId> further_inputs, Attributes attributes) {
  const ValueId y = node().outputs.at(0);
  Value inner;
  inner.name = graph_.FreshName(graph_.value(y).name + "_" + op_type);
  inner.dtype = graph_.value(y).dtype;
  inner.region = node().region;
  const ValueId x = graph_.AddValue(std::move(inner));
  node().outputs[0] = x;
  graph_.value(x).producer = id_;
  Node made;
  made.name = graph_.FreshName(graph_.NodeLabel(id_) + "/" + op_type);
  made.op_type = op_type;
  made.region = node().region;
  made.inputs = {x};
  made.inputs.insert(made.inputs.end(), further_inputs.begin(), further_inputs.end());
  made.outputs = {y};
  made.attributes = std::move(attributes);
  const NodeId after = graph_.AddNode(std::move(made));
  // Behind this node: before it, then this node before that.
  graph_.MoveBefore(after, id_);
  graph_.MoveBefore(id_, after);
}

bool NodeRewrite::HasInput(size_t input) const {
  const Node& n = graph_.node(id_);
  return input < n.inputs.size() && n.inputs[input] != kNoValue;
}

StatusOr<std::vector<int64_t>> NodeRewrite::ConstantInts(size_t input) const {
  const Node& n = graph_.node(id_);
  const Value* value = HasInput(input) ? &graph_.value(n.inputs[input]) : nullptr;
  const bool usable = value != nullptr && value->constant && !value->is_input;
  if (!usable || value->constant->dtype() != DType::kInt64) {
    return Unsupported("input {} of {} is no constant, which an attribute must be", input, n.op_type);
  }
  ASSIGN_OR_RETURN(const Tensor tensor, value->constant->Materialize());
  const auto data = tensor.data<int64_t>();
  return std::vector<int64_t>(data.begin(), data.end());
}

StatusOr<int64_t> NodeRewrite::RankOf(size_t input) const {
  const Node& n = graph_.node(id_);
  const Value* value = HasInput(input) ? &graph_.value(n.inputs[input]) : nullptr;
  if (value != nullptr && value->constant) return value->constant->rank();
  if (value != nullptr && value->shape) return static_cast<int64_t>(value->shape->size());
  return Unsupported("the rank of {}'s input {} is not known", n.op_type, input);
}

}  // namespace quant
