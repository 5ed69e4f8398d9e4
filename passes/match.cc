#include "passes/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libquant/numerics/small_float.h"

namespace quant {
namespace {

constexpr int64_t kMaxInts = 1024;
constexpr int64_t kMaxEqual = 65536;
constexpr int kMostPassed = 8;  // Casts and Identities in a row

std::string_view Plain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

template <typename T>
std::vector<int64_t> Widened(const Tensor& tensor) {
  const auto data = tensor.data<T>();
  return {data.begin(), data.end()};
}

template <typename T>
bool AllEqual(const Tensor& tensor, double number) {
  const auto data = tensor.data<T>();
  return std::all_of(data.begin(), data.end(), [&](T v) { return static_cast<double>(v) == number; });
}

bool AllEqual(const Tensor& tensor, double number) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return AllEqual<float>(tensor, number);
    case DType::kDouble:
      return AllEqual<double>(tensor, number);
    case DType::kFloat16:
      return AllEqual<float16>(tensor, number);
    case DType::kBfloat16:
      return AllEqual<bfloat16>(tensor, number);
    case DType::kInt8:
      return AllEqual<int8_t>(tensor, number);
    case DType::kUint8:
      return AllEqual<uint8_t>(tensor, number);
    case DType::kInt32:
      return AllEqual<int32_t>(tensor, number);
    case DType::kInt64:
      return AllEqual<int64_t>(tensor, number);
    case DType::kBool:
      return AllEqual<bool>(tensor, number);
    default:
      return false;
  }
}

std::optional<std::vector<int64_t>> IntsIn(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kInt64:
      return Widened<int64_t>(tensor);
    case DType::kInt32:
      return Widened<int32_t>(tensor);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool IsOp(const Node& node, std::string_view op_type) { return IsOp(node, "", op_type); }
bool IsOp(const Node& node, std::string_view domain, std::string_view op_type) {
  return node.op_type == op_type && Plain(node.domain) == Plain(domain);
}

ValueId InputOf(const Node& node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoValue; }
ValueId OutputOf(const Node& node, size_t i) { return i < node.outputs.size() ? node.outputs[i] : kNoValue; }

NodeId ProducerOf(const Graph& graph, ValueId value) {
  return value == kNoValue ? kNoNode : graph.value(value).producer;
}

const Node* MadeBy(const Graph& graph, ValueId value, std::string_view op_type) {
  const NodeId producer = ProducerOf(graph, value);
  if (producer == kNoNode || graph.value(value).output_index != 0) return nullptr;
  const Node& node = graph.node(producer);
  return IsOp(node, op_type) ? &node : nullptr;
}

NodeId Take(const Graph& graph, ValueId value, std::string_view op_type, std::vector<NodeId>& parts, bool past_casts) {
  const size_t before = parts.size();
  for (int i = 0; i <= (past_casts ? kMostPassed : 0); ++i) {
    const NodeId n = ProducerOf(graph, value);
    if (n == kNoNode || graph.value(value).output_index != 0) break;
    const Node& node = graph.node(n);
    if (HasReferences(node) || InputOf(node, 0) == kNoValue) break;
    parts.push_back(n);
    if (IsOp(node, op_type)) return n;
    if (!IsOp(node, "Cast") && !IsOp(node, "Identity")) break;
    value = node.inputs[0];
  }
  parts.resize(before);
  return kNoNode;
}

bool HasOneReader(const Graph& graph, ValueId value) {
  const auto& uses = graph.value(value).uses;
  return uses.size() == 1 && uses[0].node != kNoNode;
}

NodeId OnlyReader(const Graph& graph, ValueId value) {
  return HasOneReader(graph, value) ? graph.value(value).uses[0].node : kNoNode;
}

bool IsRegionOutput(const Graph& graph, ValueId value) {
  const auto& uses = graph.value(value).uses;
  return std::any_of(uses.begin(), uses.end(), [](const Use& u) { return u.node == kNoNode; });
}

const Tensor* ConstantOf(const Graph& graph, ValueId value) {
  if (value == kNoValue) return nullptr;
  const Value& v = graph.value(value);
  return v.constant && !v.is_input ? &*v.constant : nullptr;
}

std::optional<double> ScalarOf(const Graph& graph, ValueId value) {
  const Tensor* constant = ConstantOf(graph, value);
  if (constant == nullptr || constant->size() != 1) return std::nullopt;
  const auto owned = constant->Materialize();
  if (!owned.ok()) return std::nullopt;
  switch (owned->dtype()) {
    case DType::kFloat:
      return owned->data<float>()[0];
    case DType::kDouble:
      return owned->data<double>()[0];
    case DType::kFloat16:
      return static_cast<float>(owned->data<float16>()[0]);
    case DType::kBfloat16:
      return static_cast<float>(owned->data<bfloat16>()[0]);
    default:
      return std::nullopt;
  }
}

std::optional<bool> BoolOf(const Graph& graph, ValueId value) {
  const Tensor* constant = ConstantOf(graph, value);
  if (constant == nullptr || constant->size() != 1 || constant->dtype() != DType::kBool) return std::nullopt;
  const auto owned = constant->Materialize();
  if (!owned.ok()) return std::nullopt;
  return owned->data<bool>()[0];
}

bool IsConstantOf(const Graph& graph, ValueId value, double number) {
  const Tensor* constant = ConstantOf(graph, value);
  if (constant == nullptr || constant->size() == 0 || constant->size() > kMaxEqual) return false;
  const auto owned = constant->Materialize();
  return owned.ok() && AllEqual(*owned, number);
}

std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, ValueId value) {
  const Tensor* constant = ConstantOf(graph, value);
  if (constant == nullptr || constant->size() > kMaxInts) return std::nullopt;
  const auto owned = constant->Materialize();
  return owned.ok() ? IntsIn(*owned) : std::nullopt;
}

std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, const Node& node, std::string_view attribute,
                                           size_t input) {
  if (node.attributes.Has(attribute)) {
    if (!node.attributes.Find(attribute)->ref_name.empty()) return std::nullopt;
    return node.attributes.Ints(attribute);
  }
  const ValueId given = InputOf(node, input);
  if (given == kNoValue) return std::vector<int64_t>();
  return IntsOf(graph, given);
}

std::optional<Dims> DimsOf(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph.value(value).shape) return std::nullopt;
  return StaticDims(*graph.value(value).shape);
}

std::optional<int64_t> RankOf(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph.value(value).shape) return std::nullopt;
  return static_cast<int64_t>(graph.value(value).shape->size());
}

bool SameDim(const Dim& a, const Dim& b) {
  return a.known() ? a.value == b.value : !a.symbol.empty() && !b.known() && a.symbol == b.symbol;
}

bool SameShape(const Graph& graph, ValueId a, ValueId b) {
  const auto &x = graph.value(a).shape, &y = graph.value(b).shape;
  if (!x || !y || x->size() != y->size()) return false;
  return std::equal(x->begin(), x->end(), y->begin(), SameDim);
}

std::optional<std::pair<ValueId, ValueId>> SplitConstant(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  const bool first = ConstantOf(graph, node.inputs[0]) != nullptr,
             second = ConstantOf(graph, node.inputs[1]) != nullptr;
  if (first == second) return std::nullopt;
  return first ? std::pair(node.inputs[1], node.inputs[0]) : std::pair(node.inputs[0], node.inputs[1]);
}

std::optional<double> NumberOf(const Graph& graph, ValueId value) {
  if (const auto real = ScalarOf(graph, value)) return real;
  const auto ints = IntsOf(graph, value);
  if (!ints || ints->size() != 1) return std::nullopt;
  return static_cast<double>(ints->front());
}

std::optional<double> NumberBeside(const Graph& graph, ValueId constant, ValueId value) {
  const auto number = NumberOf(graph, constant);
  if (!number || graph.value(constant).constant->rank() > RankOf(graph, value).value_or(0)) return std::nullopt;
  return number;
}

bool IsNear(double a, double b, DType dtype) {
  const double tolerance = dtype == DType::kFloat16 ? 1e-3 : dtype == DType::kBfloat16 ? 8e-3 : 2e-6;
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

std::optional<std::string> WhyNotFreed(const Graph& graph, const std::vector<NodeId>& parts, NodeId last) {
  const auto is_part = [&](const Use& u) {
    return u.node != kNoNode && std::find(parts.begin(), parts.end(), u.node) != parts.end();
  };
  for (NodeId part : parts) {
    if (graph.node(part).region != graph.node(last).region) return "part of it lies outside of the body";
    for (ValueId v : graph.node(part).outputs) {
      if (part == last || v == kNoValue) continue;
      const Value& value = graph.value(v);
      if (!std::all_of(value.uses.begin(), value.uses.end(), is_part)) {
        return fmt::format("'{}' inside of it has another reader", value.name);
      }
    }
  }
  return std::nullopt;
}

bool HasReferences(const Node& node) {
  const auto& all = node.attributes.list();
  return std::any_of(all.begin(), all.end(), [](const Attribute& a) { return !a.ref_name.empty(); });
}

bool MayReplace(const Graph& graph, ValueId old, ValueId with) {
  if (!IsRegionOutput(graph, old)) return true;
  const Value& v = graph.value(with);
  return v.producer != kNoNode && !v.constant && v.region == graph.value(old).region && !IsRegionOutput(graph, with);
}

GraphEdit::NewNode NewNodeOf(std::string_view domain, std::string_view op_type, std::vector<ValueRef> inputs) {
  GraphEdit::NewNode node;
  node.op_type = op_type;
  node.domain = domain;
  node.inputs = std::move(inputs);
  return node;
}

}  // namespace quant
