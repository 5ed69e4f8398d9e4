#include "libquant/model/proto.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <charconv>
#include <limits>

namespace quant {
namespace {

// A file's own tensors never carry this key, so its own external data can't be taken for a payload.
constexpr char kPayloadKey[] = "nibble_payload";
// Each body is three messages deep: node, attribute, graph. Types and unknown groups need a few more.
constexpr int kRecursionLimit = 3 * kMaxBodyDepth + 100;

}  // namespace

std::optional<int64_t> PayloadIndex(const onnx::TensorProto& proto) {
  if (proto.data_location() != onnx::TensorProto::EXTERNAL || proto.external_data_size() != 2) return std::nullopt;
  if (proto.external_data(0).key() != "location" || proto.external_data(1).key() != kPayloadKey) return std::nullopt;
  const std::string& text = proto.external_data(1).value();
  int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

void SetPayloadIndex(int64_t index, onnx::TensorProto* proto) {
  proto->clear_external_data();
  proto->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = proto->add_external_data();
  location->set_key("location");
  location->set_value(fmt::format("#{}", index));
  auto* payload = proto->add_external_data();
  payload->set_key(kPayloadKey);
  payload->set_value(std::to_string(index));
}

bool ParseMessage(std::string_view bytes, google::protobuf::Message* message) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) return false;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kRecursionLimit);
  return message->ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

std::string SerializeMessage(const google::protobuf::Message& message) {
  std::string out;
  google::protobuf::io::StringOutputStream raw(&out);
  google::protobuf::io::CodedOutputStream stream(&raw);
  stream.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&stream);
  stream.Trim();
  return out;
}

void TypeFromProto(const onnx::TypeProto& type, DType* dtype, std::optional<Shape>* shape) {
  *dtype = DType::kUndefined;
  shape->reset();
  if (!type.has_tensor_type()) return;
  *dtype = DTypeFromNumber(type.tensor_type().elem_type());
  if (!type.tensor_type().has_shape()) return;
  Shape dims;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    Dim d;
    if (dim.has_dim_value() && dim.dim_value() >= 0) d.value = dim.dim_value();
    if (dim.has_dim_param()) d.symbol = dim.dim_param();
    dims.push_back(std::move(d));
  }
  *shape = std::move(dims);
}

void TypeToProto(DType dtype, const std::optional<Shape>& shape, onnx::TypeProto* type) {
  if (dtype == DType::kUndefined) {
    const bool other = type->value_case() != onnx::TypeProto::VALUE_NOT_SET && !type->has_tensor_type();
    if (!shape || other) return;
  } else {
    type->mutable_tensor_type()->set_elem_type(static_cast<int32_t>(dtype));
  }
  if (!shape) {
    type->mutable_tensor_type()->clear_shape();
    return;
  }
  auto* dims = type->mutable_tensor_type()->mutable_shape();
  if (dims->dim_size() != static_cast<int>(shape->size())) {
    dims->clear_dim();
    for (size_t i = 0; i < shape->size(); ++i) dims->add_dim();
  }
  for (size_t i = 0; i < shape->size(); ++i) {
    const Dim& d = (*shape)[i];
    if (d.known()) {
      dims->mutable_dim(static_cast<int>(i))->set_dim_value(d.value);
    } else if (!d.symbol.empty()) {
      dims->mutable_dim(static_cast<int>(i))->set_dim_param(d.symbol);
    }
  }
}

}  // namespace quant
