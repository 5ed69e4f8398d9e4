#include "libquant/model/opset_fit.h"

#include <onnx/defs/schema.h>

#include <algorithm>

#include "libquant/model/onnx_version.h"
#include "libquant/model/signature.h"

namespace quant {
namespace {

const onnx::OpSchema* SchemaOf(const Node& node, int64_t version) {
  return onnx::OpSchemaRegistry::Schema(node.op_type, static_cast<int>(version), onnx::ONNX_DOMAIN);
}

bool IsDefault(const Attribute& attribute, const onnx::OpSchema& newer) {
  if (!attribute.ref_name.empty()) return false;
  if (attribute.name == "dilations") {
    const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.value);
    return ints != nullptr && std::all_of(ints->begin(), ints->end(), [](int64_t d) { return d == 1; });
  }
  const auto known = newer.attributes().find(attribute.name);
  if (known == newer.attributes().end() || !known->second.default_value.has_name()) return false;
  const onnx::AttributeProto& otherwise = known->second.default_value;
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) return otherwise.has_i() && otherwise.i() == *i;
  if (const auto* f = std::get_if<float>(&attribute.value)) return otherwise.has_f() && otherwise.f() == *f;
  if (const auto* s = std::get_if<std::string>(&attribute.value)) return otherwise.has_s() && otherwise.s() == *s;
  return false;
}

Status FitAttributes(Node& node, const onnx::OpSchema& newer, const onnx::OpSchema& older, int64_t to) {
  std::vector<std::string> gone;
  for (const Attribute& attribute : node.attributes.list()) {
    if (older.attributes().contains(attribute.name)) continue;
    if (!IsDefault(attribute, newer)) {
      return Unsupported("{} has no attribute {} in opset {}", node.op_type, attribute.name, to);
    }
    gone.push_back(attribute.name);
  }
  for (const std::string& name : gone) node.attributes.Remove(name);
  return OkStatus();
}

Status FitCounts(Graph& graph, NodeId id, const onnx::OpSchema& older, int64_t to) {
  Node& node = graph.node(id);
  while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  const auto inputs = static_cast<int64_t>(node.inputs.size()), outputs = static_cast<int64_t>(node.outputs.size());
  if (inputs > older.max_input()) {
    const auto first = static_cast<size_t>(older.max_input());
    return Unsupported("{} has no input {} in opset {}", node.op_type, first, to);
  }
  if (outputs > older.max_output()) {
    return Unsupported("{} has at most {} outputs in opset {}", node.op_type, older.max_output(), to);
  }
  return OkStatus();
}

Status FitTypes(const Graph& graph, const Node& node, int64_t to) {
  const auto signature = SignatureOf("", node.op_type, to);
  const auto check = [&](const FormalType* formal, ValueId v, const char* what, size_t i) {
    const DType dtype = DTypeOfValue(graph, v);
    if (formal == nullptr || dtype == DType::kUndefined || formal->Takes(dtype)) return OkStatus();
    return Unsupported("{} does not take {} ({} {}) in opset {}", node.op_type, NameOf(dtype), what, i, to);
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    RETURN_IF_ERROR(check(signature->Input(i), node.inputs[i], "input", i));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    RETURN_IF_ERROR(check(signature->Output(i), node.outputs[i], "output", i));
  }
  return OkStatus();
}

}  // namespace

Status FitOlderDefinition(Graph& graph, NodeId id, int64_t from, int64_t to) {
  const onnx::OpSchema *newer = SchemaOf(graph.node(id), from), *older = SchemaOf(graph.node(id), to);
  if (newer == nullptr || older == nullptr)
    return Unsupported("{} is not there in opset {}", graph.node(id).op_type, to);
  RETURN_IF_ERROR(FitAttributes(graph.node(id), *newer, *older, to));
  RETURN_IF_ERROR(FitCounts(graph, id, *older, to));
  return FitTypes(graph, graph.node(id), to);
}

}  // namespace quant
