#include "libquant/data/byte_stream.h"

#include <cstring>

#include "libquant/base/file.h"

namespace quant {
namespace {

class FileBytes : public ByteStream {
 public:
  explicit FileBytes(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  int64_t size() const override { return file_->size(); }
  Status Read(int64_t offset, std::span<std::byte> out) override { return file_->Read(offset, out); }

 private:
  std::shared_ptr<const File> file_;
};

class MemoryBytes : public ByteStream {
 public:
  MemoryBytes(std::string what, std::span<const std::byte> bytes) : what_(std::move(what)), bytes_(bytes) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  Status Read(int64_t offset, std::span<std::byte> out) override {
    const auto length = static_cast<int64_t>(out.size());
    if (offset < 0 || offset > size() || length > size() - offset) {
      return DataError("{} is too short: {} bytes at offset {} are needed, it has {}", what_, length, offset, size());
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return OkStatus();
  }

 private:
  std::string what_;
  std::span<const std::byte> bytes_;
};

}  // namespace

StatusOr<std::unique_ptr<ByteStream>> OpenFileStream(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const File> file, File::Open(path));
  return std::unique_ptr<ByteStream>(std::make_unique<FileBytes>(std::move(file)));
}

std::unique_ptr<ByteStream> MemoryStream(std::string what, std::span<const std::byte> bytes) {
  return std::make_unique<MemoryBytes>(std::move(what), bytes);
}

}  // namespace quant
