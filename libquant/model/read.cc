#include "libquant/model/read.h"

#include <algorithm>
#include <exception>

#include "libquant/model/external_files.h"
#include "libquant/model/proto.h"
#include "libquant/model/wire.h"

namespace quant {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec";

Status CheckKind(const File& file) {
  if (file.size() == 0) return DataError("the file is empty (0 bytes); fetch or export it again");
  std::string head(static_cast<size_t>(std::min<int64_t>(file.size(), kLfsPointer.size())), '\0');
  RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(head.data(), head.size()))));
  if (head == kLfsPointer) {
    return DataError("this is a Git LFS pointer, not the model itself; run `git lfs pull` in its repository");
  }
  return OkStatus();
}

StatusOr<Model> ReadParts(const std::shared_ptr<const File>& file) {
  RETURN_IF_ERROR(CheckKind(*file));
  ExternalFiles external(file->path());
  ProtoContext context;
  context.external = &external;
  onnx::ModelProto proto;
  {
    ASSIGN_OR_RETURN(const FileSkeleton skeleton, ReadSkeleton(file, WireMessage::kModel));
    for (const FileRange& range : skeleton.payloads) {
      context.payloads.push_back(Tensor::FromFile(DType::kUint8, {range.length}, range));
    }
    if (!ParseMessage(skeleton.bytes, &proto)) {
      return DataError("protobuf can't parse it: it is damaged or no ONNX model; fetch or export it again");
    }
  }
  ASSIGN_OR_RETURN(Model model, FromProto(std::move(proto), context));
  model.sources.push_back(file);
  for (const auto& data : external.files()) {
    if (!(data->id() == file->id())) model.sources.push_back(data);
  }
  return model;
}

}  // namespace

StatusOr<Model> ReadModel(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::Open(path));
  try {
    StatusOr<Model> model = ReadParts(file);
    if (!model.ok()) return WithContext(model.status(), path);
    return model;
  } catch (const std::exception& e) {
    return DataError("{}: it can't be read: {}", path, e.what());
  }
}

int64_t SourceBytes(const Model& model) {
  int64_t sum = 0;
  for (const auto& file : model.sources) sum += file->size();
  return sum;
}

}  // namespace quant
