#include "libquant/model/tensor_file.h"

#include <onnx/onnx-data.pb.h>

#include <exception>

#include "libquant/model/external_files.h"
#include "libquant/model/proto.h"
#include "libquant/model/wire.h"

namespace quant {
namespace {

using NamedTensor = std::pair<std::string, Tensor>;

StatusOr<NamedTensor> ReadParts(const std::shared_ptr<const File>& file) {
  if (file->size() == 0) return DataError("the file is empty (0 bytes)");
  ASSIGN_OR_RETURN(const FileSkeleton skeleton, ReadSkeleton(file, WireMessage::kTensor));
  ExternalFiles external(file->path());
  ProtoContext context;
  context.external = &external;
  for (const FileRange& range : skeleton.payloads) {
    context.payloads.push_back(Tensor::FromFile(DType::kUint8, {range.length}, range));
  }
  onnx::TensorProto proto;
  if (!ParseMessage(skeleton.bytes, &proto)) return DataError("it is no serialized ONNX tensor");
  std::string name = proto.name();
  StatusOr<Tensor> tensor = TensorFromProto(std::move(proto), context, fmt::format("tensor '{}'", name));
  if (!tensor.ok()) return tensor.status();
  return NamedTensor(std::move(name), *std::move(tensor));
}

constexpr int64_t kMostValueBytes = int64_t{1} << 30;

StatusOr<Tensor> OwnedTensor(onnx::TensorProto&& proto) {
  ASSIGN_OR_RETURN(const Tensor tensor, TensorFromProto(std::move(proto), {}, "a stored tensor"));
  return tensor.Materialize();
}

StatusOr<Tensor> ListOf(onnx::SequenceProto& proto) {
  std::vector<Tensor> items;
  for (onnx::TensorProto& item : *proto.mutable_tensor_values()) {
    ASSIGN_OR_RETURN(Tensor tensor, OwnedTensor(std::move(item)));
    items.push_back(std::move(tensor));
  }
  const bool tensors = proto.elem_type() == onnx::SequenceProto::TENSOR || proto.elem_type() == 0;
  if (!tensors) return Unsupported("a sequence of anything but tensors");
  return Tensor::OfList(std::move(items));
}

StatusOr<Tensor> OptionalOf(onnx::OptionalProto& proto) {
  if (proto.has_tensor_value()) return OwnedTensor(std::move(*proto.mutable_tensor_value()));
  if (proto.has_sequence_value()) return ListOf(*proto.mutable_sequence_value());
  if (proto.elem_type() == onnx::OptionalProto::UNDEFINED) return Tensor::Nothing();
  return Unsupported("an optional of anything but a tensor or a sequence");
}

template <typename Proto, typename Take>
StatusOr<NamedTensor> ReadProto(const std::string& path, const Take& take) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadTextFile(path, kMostValueBytes));
  Proto proto;
  // A tensor parses as a sequence too, with fields that are none of a sequence's.
  if (!ParseMessage(bytes, &proto) || !proto.unknown_fields().empty()) {
    return DataError("{}: it is not the kind of value, a sequence or an optional, that the model has here", path);
  }
  StatusOr<Tensor> value = take(proto);
  if (!value.ok()) return WithContext(value.status(), path);
  return NamedTensor(proto.name(), *std::move(value));
}

}  // namespace

StatusOr<NamedTensor> ReadValueFile(const std::string& path, const Value& value) {
  onnx::ValueInfoProto info;
  if (value.dtype == DType::kUndefined && ParseMessage(value.info_extra, &info)) {
    if (info.type().has_sequence_type()) return ReadProto<onnx::SequenceProto>(path, ListOf);
    if (info.type().has_optional_type()) return ReadProto<onnx::OptionalProto>(path, OptionalOf);
  }
  ASSIGN_OR_RETURN(NamedTensor tensor, ReadTensorFile(path));
  StatusOr<Tensor> owned = tensor.second.Materialize();
  if (!owned.ok()) return WithContext(owned.status(), path);
  return NamedTensor(std::move(tensor.first), *std::move(owned));
}

StatusOr<NamedTensor> ReadTensorFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::Open(path));
  try {
    StatusOr<NamedTensor> tensor = ReadParts(file);
    if (!tensor.ok()) return WithContext(tensor.status(), path);
    return tensor;
  } catch (const std::exception& e) {
    return DataError("{}: it can't be read: {}", path, e.what());
  }
}

}  // namespace quant
