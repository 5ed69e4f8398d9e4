#include "libquant/verify/tensor_spill.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace quant {
namespace {

std::string TemporaryFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

}  // namespace

StatusOr<std::unique_ptr<TensorSpill>> TensorSpill::Create() {
  const std::string folder = TemporaryFolder();
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {  // a file system that has no such files
    std::string name = folder + "/nibble-XXXXXX";
    fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) unlink(name.c_str());
  }
  if (fd < 0) return OutputError("no temporary file in {} (TMPDIR): {}", folder, std::strerror(errno));
  return std::unique_ptr<TensorSpill>(new TensorSpill(fd, folder));
}

TensorSpill::~TensorSpill() { close(fd_); }

StatusOr<TensorSpill::Place> TensorSpill::Put(const Tensor& tensor) {
  ASSIGN_OR_RETURN(const Tensor owned, tensor.Materialize());
  const std::span<const std::byte> bytes = owned.bytes();
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = pwrite(fd_, bytes.data() + done, bytes.size() - done, end_ + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OutputError("temporary file in {} (TMPDIR): {}", folder_, std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  Place place{end_, owned.dtype(), owned.dims()};
  end_ += static_cast<int64_t>(bytes.size());
  return place;
}

Status TensorSpill::Fill(int64_t offset, std::span<std::byte> out) const {
  for (size_t done = 0; done < out.size();) {
    const ssize_t n = pread(fd_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OutputError("temporary file in {} (TMPDIR) cannot be read back", folder_);
    done += static_cast<size_t>(n);
  }
  return OkStatus();
}

StatusOr<Tensor> TensorSpill::Get(const Place& place) const {
  Tensor out = Tensor::Allocate(place.dtype, place.dims);
  RETURN_IF_ERROR(Fill(place.offset, out.mutable_bytes()));
  return out;
}

StatusOr<Tensor> TensorSpill::Get(const Place& place, int64_t begin, int64_t count) const {
  Tensor out = Tensor::Allocate(place.dtype, {count});
  RETURN_IF_ERROR(Fill(place.offset + begin * InfoOf(place.dtype).bits / 8, out.mutable_bytes()));
  return out;
}

}  // namespace quant
