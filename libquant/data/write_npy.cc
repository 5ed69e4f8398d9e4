#include "libquant/base/file.h"
#include "libquant/data/array_stream.h"
#include "libquant/data/npy.h"
#include "libquant/data/npy_header.h"

namespace quant {

StatusOr<Tensor> ForNumpy(const std::string& name, const Tensor& given) {
  if (InfoOf(given.dtype()).bits == 0) return Unsupported("array {}: a {} is not written", name, NameOf(given.dtype()));
  ASSIGN_OR_RETURN(Tensor tensor, given.Materialize());
  if (!NumpyName(tensor.dtype()).empty()) return tensor;
  const DTypeInfo& info = InfoOf(tensor.dtype());
  if (tensor.dtype() == DType::kBfloat16) {
    ASSIGN_OR_RETURN(Tensor out, TryAllocate(name, DType::kFloat, tensor.dims()));
    for (size_t i = 0; i < static_cast<size_t>(tensor.size()); ++i) {
      out.mutable_data<float>()[i] = static_cast<float>(tensor.data<bfloat16>()[i]);
    }
    return out;
  }
  if (info.is_float || info.bits >= 8) return Unsupported("array {}: {} is not written", name, info.name);
  ASSIGN_OR_RETURN(Tensor out, TryAllocate(name, info.is_signed ? DType::kInt8 : DType::kUint8, tensor.dims()));
  const int per_byte = 8 / info.bits;
  const int levels = 1 << info.bits;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const auto byte = static_cast<int>(tensor.bytes()[static_cast<size_t>(i / per_byte)]);
    int code = (byte >> (static_cast<int>(i % per_byte) * info.bits)) & (levels - 1);
    if (info.is_signed && code >= levels / 2) code -= levels;
    out.mutable_bytes()[static_cast<size_t>(i)] = static_cast<std::byte>(code);
  }
  return out;
}

Status WriteNpy(const std::string& path, const Tensor& given) {
  ASSIGN_OR_RETURN(const Tensor tensor, ForNumpy(path, given));
  const std::string header = NpyHeaderFor(tensor.dtype(), tensor.dims());
  const auto header_bytes = static_cast<int64_t>(header.size());
  ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  RETURN_IF_ERROR(file->Reserve(header_bytes + tensor.byte_size()));
  RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(header))));
  RETURN_IF_ERROR(file->WriteAt(header_bytes, tensor.bytes()));
  return CommitFiles({file.get()});
}

}  // namespace quant
