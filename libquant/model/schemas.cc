#include "libquant/model/schemas.h"

#include <onnx/defs/schema.h>

#include <mutex>

#include "libquant/model/proto.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

using onnx::OpSchema;

onnx::AttributeProto::AttributeType TypeOf(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt:
      return onnx::AttributeProto::INT;
    case AttributeKind::kFloat:
      return onnx::AttributeProto::FLOAT;
    case AttributeKind::kString:
      return onnx::AttributeProto::STRING;
    case AttributeKind::kInts:
      return onnx::AttributeProto::INTS;
    case AttributeKind::kFloats:
      return onnx::AttributeProto::FLOATS;
  }
  return onnx::AttributeProto::UNDEFINED;
}

OpSchema::FormalParameterOption OptionOf(const FormalParameter& p) {
  return p.variadic ? OpSchema::Variadic : p.optional ? OpSchema::Optional : OpSchema::Single;
}

// The attributes a row names, as ours.
Attributes AttributesOf(const SchemaRow& row, onnx::InferenceContext& context) {
  Attributes out;
  for (const AttributeRow& a : row.attributes) {
    const onnx::AttributeProto* proto = context.getAttribute(a.name);
    if (proto == nullptr) continue;
    switch (a.kind) {
      case AttributeKind::kInt:
        out.Set(a.name, static_cast<int64_t>(proto->i()));
        break;
      case AttributeKind::kFloat:
        out.Set(a.name, proto->f());
        break;
      case AttributeKind::kString:
        out.Set(a.name, proto->s());
        break;
      case AttributeKind::kInts:
        out.Set(a.name, std::vector<int64_t>(proto->ints().begin(), proto->ints().end()));
        break;
      case AttributeKind::kFloats:
        out.Set(a.name, std::vector<float>(proto->floats().begin(), proto->floats().end()));
        break;
    }
  }
  return out;
}

void Infer(const SchemaRow& row, onnx::InferenceContext& context) {
  const Attributes attributes = AttributesOf(row, context);
  InferContext ours{attributes, {}, {}};
  ours.inputs.resize(context.getNumInputs());
  ours.outputs.resize(context.getNumOutputs());
  for (size_t i = 0; i < ours.inputs.size(); ++i) {
    const onnx::TypeProto* type = context.getInputType(i);
    if (type != nullptr) TypeFromProto(*type, &ours.inputs[i].dtype, &ours.inputs[i].shape);
  }
  row.infer(ours);
  for (size_t i = 0; i < ours.outputs.size(); ++i) {
    if (ours.outputs[i].dtype == DType::kUndefined) continue;
    TypeToProto(ours.outputs[i].dtype, ours.outputs[i].shape, context.getOutputType(i));
  }
}

void Register(const OpDef& op) {
  const SchemaRow& row = *op.schema;
  OpSchema schema(std::string(op.name), __FILE__, __LINE__);
  schema.SetDomain(std::string(op.domain));
  schema.SinceVersion(row.since_version);
  schema.SetDoc(row.doc);
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const FormalParameter& p = row.inputs[i];
    schema.Input(static_cast<int>(i), p.name, "", p.type, OptionOf(p), false);
  }
  for (size_t i = 0; i < row.outputs.size(); ++i) {
    const FormalParameter& p = row.outputs[i];
    schema.Output(static_cast<int>(i), p.name, "", p.type, OptionOf(p), false);
  }
  for (const AttributeRow& a : row.attributes) schema.Attr(a.name, "", TypeOf(a.kind), a.required);
  for (const TypeRow& t : row.types) schema.TypeConstraint(t.name, t.allowed, "");
  if (row.infer != nullptr) {
    schema.TypeAndShapeInferenceFunction([&row](onnx::InferenceContext& context) { Infer(row, context); });
  }
  onnx::RegisterSchema(std::move(schema));
}

}  // namespace

void RegisterSchemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    if (domains.Map().count("com.microsoft") == 0) domains.AddDomainToVersion("com.microsoft", 1, 1);
    for (const OpDef* op : AllOps()) {
      if (op->schema != nullptr) Register(*op);
    }
  });
}

}  // namespace quant
