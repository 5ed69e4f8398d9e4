#include "libquant/data/npy.h"

#include "libquant/data/array_stream.h"
#include "libquant/data/npz_archive.h"

namespace quant {

StatusOr<Tensor> ReadNpy(const std::string& path) {
  ASSIGN_OR_RETURN(auto bytes, OpenFileStream(path));
  ASSIGN_OR_RETURN(auto array, ArrayStream::Open(path, std::move(bytes)));
  return array->ReadAll();
}

StatusOr<Tensor> ParseNpy(const std::string& what, std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(auto array, ArrayStream::Open(what, MemoryStream(what, bytes)));
  return array->ReadAll();
}

StatusOr<NamedTensors> ReadNpz(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<NpzMember> members, OpenNpz(path));
  NamedTensors out;
  for (NpzMember& member : members) {
    ASSIGN_OR_RETURN(Tensor tensor, member.array->ReadAll());
    out.emplace_back(std::move(member.name), std::move(tensor));
  }
  return out;
}

}  // namespace quant
