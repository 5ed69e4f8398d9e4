#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

using onnx::AttributeProto;

bool StaysInline(const Tensor& tensor) {
  const bool small = tensor.byte_size() < kInlineBytes;
  if (tensor.file_range() != nullptr) return small;
  if (!tensor.is_owned()) return false;
  const bool integers = tensor.dtype() == DType::kInt64 || tensor.dtype() == DType::kInt32;
  return small || (integers && tensor.rank() <= 1);
}

template <typename T, typename Field>
void PutAll(const std::vector<T>& values, Field* field) {
  field->Reserve(static_cast<int>(values.size()));
  for (const T& v : values) *field->Add() = v;
}

Status PutTensors(const std::vector<Tensor>& tensors, std::vector<Tensor>* payloads, AttributeProto* proto) {
  if (proto->tensors_size() != static_cast<int>(tensors.size())) {
    proto->clear_tensors();
    for (size_t i = 0; i < tensors.size(); ++i) proto->add_tensors();
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    RETURN_IF_ERROR(PutTensor(tensors[i], payloads, proto->mutable_tensors(static_cast<int>(i))));
  }
  return OkStatus();
}

// One overload for each kind of value. The leftovers may hold parts of a tensor that the attribute no longer is.
class ValuePutter {
 public:
  ValuePutter(std::vector<Tensor>* payloads, const PutBody& put_body, AttributeProto* proto)
      : payloads_(payloads), put_body_(put_body), proto_(*proto) {}

  Status operator()(const OpaqueValue&) { return OkStatus(); }
  Status operator()(int64_t v) {
    Become(AttributeProto::INT);
    proto_.set_i(v);
    return OkStatus();
  }
  Status operator()(float v) {
    Become(AttributeProto::FLOAT);
    proto_.set_f(v);
    return OkStatus();
  }
  Status operator()(const std::string& v) {
    Become(AttributeProto::STRING);
    proto_.set_s(v);
    return OkStatus();
  }
  Status operator()(const Tensor& v) {
    Become(AttributeProto::TENSOR);
    return PutTensor(v, payloads_, proto_.mutable_t());
  }
  Status operator()(BodyRef v) {
    Become(AttributeProto::GRAPH);
    return put_body_(v.region, proto_.mutable_g());
  }
  Status operator()(const std::vector<int64_t>& v) {
    Become(AttributeProto::INTS);
    PutAll(v, proto_.mutable_ints());
    return OkStatus();
  }
  Status operator()(const std::vector<float>& v) {
    Become(AttributeProto::FLOATS);
    PutAll(v, proto_.mutable_floats());
    return OkStatus();
  }
  Status operator()(const std::vector<std::string>& v) {
    Become(AttributeProto::STRINGS);
    PutAll(v, proto_.mutable_strings());
    return OkStatus();
  }
  Status operator()(const std::vector<Tensor>& v) {
    Become(AttributeProto::TENSORS);
    return PutTensors(v, payloads_, &proto_);
  }
  Status operator()(const std::vector<BodyRef>& v) {
    Become(AttributeProto::GRAPHS);
    for (BodyRef ref : v) RETURN_IF_ERROR(put_body_(ref.region, proto_.add_graphs()));
    return OkStatus();
  }

 private:
  void Become(AttributeProto::AttributeType type) {
    if (type != AttributeProto::TENSOR) proto_.clear_t();
    if (type != AttributeProto::TENSORS) proto_.clear_tensors();
    proto_.set_type(type);
  }

  std::vector<Tensor>* payloads_;
  const PutBody& put_body_;
  AttributeProto& proto_;
};

}  // namespace

Status PutTensor(const Tensor& tensor, std::vector<Tensor>* payloads, onnx::TensorProto* proto) {
  for (int64_t dim : tensor.dims()) proto->add_dims(dim);
  proto->set_data_type(static_cast<int32_t>(tensor.dtype()));
  if (const auto* strings = tensor.strings()) {
    for (const std::string& s : *strings) proto->add_string_data(s);
    return OkStatus();
  }
  if (tensor.byte_size() == 0) return OkStatus();
  if (!StaysInline(tensor)) {
    SetPayloadIndex(static_cast<int64_t>(payloads->size()), proto);
    payloads->push_back(tensor);
    return OkStatus();
  }
  std::string* raw = proto->mutable_raw_data();
  raw->resize(static_cast<size_t>(tensor.byte_size()));
  return tensor.ReadBytes(0, std::as_writable_bytes(std::span(raw->data(), raw->size())));
}

Status PutAttribute(const Attribute& attribute, std::vector<Tensor>* payloads, const PutBody& put_body,
                    AttributeProto* proto) {
  if (!attribute.extra.empty() && !ParseMessage(attribute.extra, proto)) {
    return BugError("what was kept of attribute {} does not parse", attribute.name);
  }
  proto->set_name(attribute.name);
  if (!attribute.ref_name.empty()) proto->set_ref_attr_name(attribute.ref_name);
  return std::visit(ValuePutter(payloads, put_body, proto), attribute.value);
}

}  // namespace quant
