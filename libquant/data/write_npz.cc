#include <zip.h>

#include <array>
#include <deque>
#include <memory>

#include "libquant/base/file.h"
#include "libquant/data/npy.h"
#include "libquant/data/npy_header.h"

namespace quant {
namespace {

constexpr zip_uint16_t kMidnight = 0;
constexpr zip_uint16_t kFirstDosDay = 0x21;  // 1980-01-01

Status ZipFailure(zip_t* zip) { return OutputError("can't make the .npz: {}", zip_strerror(zip)); }

// Archive bytes in memory, behind a libzip source; copied to the file piece by piece.
Status CopyOut(zip_source_t* source, PendingFile& file) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_source_stat(source, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0 || zip_source_open(source) != 0) {
    return OutputError("can't make the .npz");
  }
  Status status = file.Reserve(static_cast<int64_t>(stat.size));
  std::vector<std::byte> piece(size_t{1} << 20);
  int64_t at = 0;
  while (status.ok() && at < static_cast<int64_t>(stat.size)) {
    const zip_int64_t n = zip_source_read(source, piece.data(), piece.size());
    if (n <= 0) {
      status = OutputError("can't make the .npz");
    } else {
      status = file.WriteAt(at, std::span(piece).first(static_cast<size_t>(n)));
      at += n;
    }
  }
  zip_source_close(source);
  return status;
}

struct Member {
  std::string header;
  Tensor tensor;
};

Status AddMember(zip_t* zip, const std::string& name, const Member& member) {
  std::array<zip_buffer_fragment_t, 2> parts;
  // libzip only reads what it is given without ownership.
  parts[0] = {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(member.header.data())), member.header.size()};
  const auto bytes = member.tensor.bytes();
  parts[1] = {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(bytes.data())), bytes.size()};
  zip_source_t* source = zip_source_buffer_fragment(zip, parts.data(), bytes.empty() ? 1 : 2, 0);
  if (source == nullptr) return ZipFailure(zip);
  const zip_int64_t index = zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return OutputError("array {} can't be added to the .npz: {}", name, zip_strerror(zip));
  }
  const auto i = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(zip, i, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(zip, i, kMidnight, kFirstDosDay, 0) != 0) {
    return ZipFailure(zip);
  }
  return OkStatus();
}

}  // namespace

Status WriteNpz(const std::string& path, const NamedTensors& arrays) {
  // libzip writes no archive without members; this is one.
  if (arrays.empty()) return WriteFileAtomically(path, std::string("PK\x05\x06", 4) + std::string(18, '\0'));
  std::deque<Member> members;
  for (const auto& [name, given] : arrays) {
    ASSIGN_OR_RETURN(Tensor tensor, ForNumpy(name, given));
    members.push_back({NpyHeaderFor(tensor.dtype(), tensor.dims()), std::move(tensor)});
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  zip_error_t error;
  zip_error_init(&error);
  const std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> bytes(zip_source_buffer_create(nullptr, 0, 0, &error),
                                                                     zip_source_free);
  if (bytes == nullptr) return OutputError("can't make the .npz: {}", zip_error_strerror(&error));
  std::unique_ptr<zip_t, void (*)(zip_t*)> zip(zip_open_from_source(bytes.get(), ZIP_TRUNCATE, &error), zip_discard);
  if (zip == nullptr) return OutputError("can't make the .npz: {}", zip_error_strerror(&error));
  zip_source_keep(bytes.get());
  for (size_t i = 0; i < arrays.size(); ++i) RETURN_IF_ERROR(AddMember(zip.get(), arrays[i].first, members[i]));
  if (zip_close(zip.get()) != 0) return ZipFailure(zip.get());
  static_cast<void>(zip.release());  // closed above
  RETURN_IF_ERROR(WithContext(CopyOut(bytes.get(), *file), path));
  return CommitFiles({file.get()});
}

}  // namespace quant
