#include "libquant/model/tensor_file.h"

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

}  // namespace

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
