#include "libquant/model/signature.h"

#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>

#include "libquant/model/proto.h"
#include "libquant/model/schemas.h"

namespace quant {
namespace {

FormalType TypeOf(const onnx::OpSchema& schema, const onnx::OpSchema::FormalParameter& formal) {
  FormalType out;
  out.variable = formal.GetTypeStr();
  out.heterogeneous = formal.GetOption() == onnx::OpSchema::Variadic && !formal.GetIsHomogeneous();
  const auto& variables = schema.typeConstraintMap();
  out.fixed = !variables.contains(out.variable);
  for (const auto* type : formal.GetTypes()) {
    DType dtype = DType::kUndefined;
    std::optional<Shape> shape;
    TypeFromProto(onnx::Utils::DataTypeUtils::ToTypeProto(type), &dtype, &shape);
    if (dtype == DType::kUndefined) {
      out.others = true;
    } else {
      out.tensors.push_back(dtype);
    }
  }
  return out;
}

bool EndsVariadic(const std::vector<onnx::OpSchema::FormalParameter>& list) {
  return !list.empty() && list.back().GetOption() == onnx::OpSchema::Variadic;
}

}  // namespace

bool FormalType::Takes(DType dtype) const { return std::find(tensors.begin(), tensors.end(), dtype) != tensors.end(); }

const FormalType* Signature::At(const std::vector<FormalType>& list, bool variadic, size_t i) {
  if (i < list.size()) return &list[i];
  return variadic && !list.empty() ? &list.back() : nullptr;
}

std::optional<Signature> SignatureOf(std::string_view domain, const std::string& op_type, int64_t version) {
  RegisterSchemas();
  const std::string in(domain == "ai.onnx" ? "" : domain);
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(op_type, static_cast<int>(version), in);
  if (schema == nullptr) return std::nullopt;
  Signature out;
  for (const auto& formal : schema->inputs()) out.inputs.push_back(TypeOf(*schema, formal));
  for (const auto& formal : schema->outputs()) out.outputs.push_back(TypeOf(*schema, formal));
  out.variadic_inputs = EndsVariadic(schema->inputs());
  out.variadic_outputs = EndsVariadic(schema->outputs());
  return out;
}

DType MainType(const Graph& graph, const Node& node, int64_t version) {
  const std::optional<Signature> signature = SignatureOf(node.domain, node.op_type, version);
  for (size_t i = 0; signature && i < node.inputs.size(); ++i) {
    const FormalType* formal = signature->Input(i);
    if (formal == nullptr || formal->fixed || formal->tensors.size() < 2) continue;
    const DType dtype = DTypeOfValue(graph, node.inputs[i]);
    return dtype == DType::kList || dtype == DType::kNothing ? DType::kUndefined : dtype;
  }
  return DType::kUndefined;
}

DType DTypeOfValue(const Graph& graph, ValueId v) {
  if (v == kNoValue) return DType::kUndefined;
  const Value& value = graph.value(v);
  return value.dtype == DType::kUndefined && value.constant ? value.constant->dtype() : value.dtype;
}

}  // namespace quant
