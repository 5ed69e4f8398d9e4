#include <array>

#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

using onnx::AttributeProto;

struct ValueField {
  AttributeProto::AttributeType type;
  int number;
};
constexpr std::array<ValueField, 14> kValueFields = {{{AttributeProto::FLOAT, 2},
                                                      {AttributeProto::INT, 3},
                                                      {AttributeProto::STRING, 4},
                                                      {AttributeProto::TENSOR, 5},
                                                      {AttributeProto::GRAPH, 6},
                                                      {AttributeProto::FLOATS, 7},
                                                      {AttributeProto::INTS, 8},
                                                      {AttributeProto::STRINGS, 9},
                                                      {AttributeProto::TENSORS, 10},
                                                      {AttributeProto::GRAPHS, 11},
                                                      {AttributeProto::SPARSE_TENSOR, 22},
                                                      {AttributeProto::SPARSE_TENSORS, 23},
                                                      {AttributeProto::TYPE_PROTO, 14},
                                                      {AttributeProto::TYPE_PROTOS, 15}}};

bool HasValue(const AttributeProto& proto, int number) {
  const auto* field = AttributeProto::descriptor()->FindFieldByNumber(number);
  const auto* reflection = proto.GetReflection();
  return field->is_repeated() ? reflection->FieldSize(proto, field) > 0 : reflection->HasField(proto, field);
}

// The type it says, or, in files of the first IR versions that say none, the type of the value it holds. UNDEFINED for
// a kind that we don't know. DataError when it says one type and holds another.
StatusOr<AttributeProto::AttributeType> TypeOf(const AttributeProto& proto, const std::string& where) {
  AttributeProto::AttributeType type = proto.type();
  for (const ValueField& field : kValueFields) {
    if (field.type == type || !HasValue(proto, field.number)) continue;
    if (type == AttributeProto::UNDEFINED && !proto.has_type()) {
      type = field.type;
    } else {
      return DataError("{} holds a value of another type than it says", where);
    }
  }
  return type;
}

// Moves a repeated field out of the proto into a vector.
template <typename T, typename Field>
std::vector<T> TakeAll(Field* field) {
  std::vector<T> out;
  out.reserve(static_cast<size_t>(field->size()));
  for (auto& entry : *field) out.push_back(std::move(entry));
  field->Clear();
  return out;
}

StatusOr<AttributeValue> TakeTensors(AttributeProto* proto, const ProtoContext& context, const std::string& where) {
  std::vector<Tensor> out;
  for (auto& t : *proto->mutable_tensors()) {
    ASSIGN_OR_RETURN(Tensor tensor, TakeTensor(&t, context, where));
    out.push_back(std::move(tensor));
  }
  bool left = false;
  for (const auto& t : proto->tensors()) left = left || t.ByteSizeLong() > 0;
  if (!left) proto->clear_tensors();
  return AttributeValue(std::move(out));
}

StatusOr<AttributeValue> TakeValue(AttributeProto* proto, AttributeProto::AttributeType type,
                                   const ProtoContext& context, const std::string& where,
                                   std::vector<onnx::GraphProto>* bodies) {
  switch (type) {
    case AttributeProto::FLOAT:
      return AttributeValue(proto->f());
    case AttributeProto::INT:
      return AttributeValue(static_cast<int64_t>(proto->i()));
    case AttributeProto::STRING:
      return AttributeValue(std::move(*proto->mutable_s()));
    case AttributeProto::TENSOR: {
      if (!proto->has_t()) return DataError("{} has no value", where);
      ASSIGN_OR_RETURN(Tensor tensor, TakeTensor(proto->mutable_t(), context, where));
      if (proto->t().ByteSizeLong() == 0) proto->clear_t();
      return AttributeValue(std::move(tensor));
    }
    case AttributeProto::GRAPH:
      if (!proto->has_g()) return DataError("{} has no value", where);
      bodies->push_back(std::move(*proto->mutable_g()));
      proto->clear_g();
      return AttributeValue(BodyRef{-1});
    case AttributeProto::FLOATS:
      return AttributeValue(TakeAll<float>(proto->mutable_floats()));
    case AttributeProto::INTS:
      return AttributeValue(TakeAll<int64_t>(proto->mutable_ints()));
    case AttributeProto::STRINGS:
      return AttributeValue(TakeAll<std::string>(proto->mutable_strings()));
    case AttributeProto::TENSORS:
      return TakeTensors(proto, context, where);
    case AttributeProto::GRAPHS: {
      const std::vector<BodyRef> refs(static_cast<size_t>(proto->graphs_size()), BodyRef{-1});
      for (auto& g : *proto->mutable_graphs()) bodies->push_back(std::move(g));
      proto->clear_graphs();
      return AttributeValue(refs);
    }
    default:
      RETURN_IF_ERROR(InlineExternalTensors(proto, context, where));
      return AttributeValue(OpaqueValue{});
  }
}

}  // namespace

StatusOr<Attribute> TakeAttribute(AttributeProto* proto, const ProtoContext& context, const std::string& where,
                                  std::vector<onnx::GraphProto>* bodies) {
  Attribute out;
  out.name = std::move(*proto->mutable_name());
  proto->clear_name();
  if (out.name.empty()) return DataError("{} has an attribute without a name", where);
  const std::string label = fmt::format("attribute {} of {}", out.name, where);
  if (!proto->ref_attr_name().empty()) {
    out.ref_name = proto->ref_attr_name();
    proto->clear_ref_attr_name();
    RETURN_IF_ERROR(InlineExternalTensors(proto, context, label));
  } else {
    ASSIGN_OR_RETURN(const AttributeProto::AttributeType type, TypeOf(*proto, label));
    ASSIGN_OR_RETURN(out.value, TakeValue(proto, type, context, label, bodies));
    if (!std::holds_alternative<OpaqueValue>(out.value)) {
      proto->clear_type();
      proto->clear_f();
      proto->clear_i();
      proto->clear_s();
    }
  }
  out.extra = Leftovers(*proto);
  return out;
}

std::optional<Tensor> ConstantOf(const Attribute& attribute) {
  const auto count = [](const auto& v) { return Dims{static_cast<int64_t>(v.size())}; };
  if (const auto* t = std::get_if<Tensor>(&attribute.value); t && attribute.name == "value") return *t;
  if (const auto* f = std::get_if<float>(&attribute.value); f && attribute.name == "value_float") {
    return Tensor::Scalar(*f);
  }
  if (const auto* i = std::get_if<int64_t>(&attribute.value); i && attribute.name == "value_int") {
    return Tensor::Scalar(*i);
  }
  if (const auto* v = std::get_if<std::vector<float>>(&attribute.value); v && attribute.name == "value_floats") {
    return Tensor::Of<float>(count(*v), *v);
  }
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attribute.value); v && attribute.name == "value_ints") {
    return Tensor::Of<int64_t>(count(*v), *v);
  }
  if (const auto* s = std::get_if<std::string>(&attribute.value); s && attribute.name == "value_string") {
    return Tensor::OfStrings({}, std::make_shared<const std::vector<std::string>>(1, *s));
  }
  if (const auto* v = std::get_if<std::vector<std::string>>(&attribute.value); v && attribute.name == "value_strings") {
    return Tensor::OfStrings(count(*v), std::make_shared<const std::vector<std::string>>(*v));
  }
  return std::nullopt;
}

}  // namespace quant
