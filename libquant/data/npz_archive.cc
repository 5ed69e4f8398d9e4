#include "libquant/data/npz_archive.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <set>

#include "libquant/base/file.h"

namespace quant {
namespace {

constexpr int64_t kMaxMembers = 65536;
// Deflate can't do better than one byte for 1032.
constexpr uint64_t kMaxDeflateRatio = 1032;

using ZipHandle = std::shared_ptr<zip_t>;

// One entry, decompressed from the front; going back opens it anew.
class ZipEntry : public ByteStream {
 public:
  ZipEntry(std::string what, ZipHandle zip, zip_uint64_t index, int64_t size)
      : what_(std::move(what)), zip_(std::move(zip)), index_(index), size_(size) {}
  ~ZipEntry() override { Close(); }
  ZipEntry(const ZipEntry&) = delete;
  ZipEntry& operator=(const ZipEntry&) = delete;

  int64_t size() const override { return size_; }

  Status Read(int64_t offset, std::span<std::byte> out) override {
    const auto length = static_cast<int64_t>(out.size());
    if (offset < 0 || offset > size_ || length > size_ - offset) {
      return DataError("{} is too short: {} bytes at offset {} are needed, it has {}", what_, length, offset, size_);
    }
    if (entry_ == nullptr || offset < at_) RETURN_IF_ERROR(Reopen());
    std::array<std::byte, 65536> skipped;
    while (at_ < offset) {
      const auto step = std::min<int64_t>(offset - at_, static_cast<int64_t>(skipped.size()));
      RETURN_IF_ERROR(ReadOn(std::span(skipped).first(static_cast<size_t>(step))));
    }
    RETURN_IF_ERROR(ReadOn(out));
    return at_ == size_ ? CheckEnd() : OkStatus();
  }

 private:
  Status Damaged(const std::string& why) const { return DataError("{} is damaged: {}", what_, why); }

  Status Reopen() {
    Close();
    entry_ = zip_fopen_index(zip_.get(), index_, 0);
    at_ = 0;
    return entry_ == nullptr ? Damaged(zip_strerror(zip_.get())) : OkStatus();
  }

  Status ReadOn(std::span<std::byte> out) {
    while (!out.empty()) {
      const zip_int64_t n = zip_fread(entry_, out.data(), out.size());
      if (n < 0) return Damaged(zip_file_strerror(entry_));
      if (n == 0) return Damaged(fmt::format("it ends after {} of {} bytes", at_, size_));
      at_ += n;
      out = out.subspan(static_cast<size_t>(n));
    }
    return OkStatus();
  }

  // The read past the end is where libzip compares the checksum.
  Status CheckEnd() {
    std::byte extra;
    const zip_int64_t n = zip_fread(entry_, &extra, 1);
    if (n < 0) return Damaged(zip_file_strerror(entry_));
    if (n > 0) return Damaged(fmt::format("it goes on after {} bytes", size_));
    return OkStatus();
  }

  void Close() {
    if (entry_ != nullptr) zip_fclose(entry_);
    entry_ = nullptr;
  }

  std::string what_;
  ZipHandle zip_;
  zip_uint64_t index_;
  int64_t size_;
  int64_t at_ = 0;
  zip_file_t* entry_ = nullptr;
};

StatusOr<ZipHandle> OpenZip(const std::string& path) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip != nullptr) return ZipHandle(zip, zip_discard);
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string why = zip_error_strerror(&error);
  zip_error_fini(&error);
  return DataError("{} can't be read as an .npz: {}", path, why);
}

// The entry's uncompressed size, once it is plausible for the bytes that the archive holds.
StatusOr<int64_t> CheckedSize(const std::string& what, const zip_stat_t& stat, int64_t archive_size) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & kNeeded) != kNeeded) return DataError("{} does not say its size", what);
  if (stat.encryption_method != ZIP_EM_NONE) return DataError("{} is encrypted", what);
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return DataError("{} is compressed by method {}; stored and deflated members are read", what, stat.comp_method);
  }
  const auto limit = static_cast<zip_uint64_t>(archive_size);
  const bool stored = stat.comp_method == ZIP_CM_STORE;
  if (stat.comp_size > limit || stat.size > stat.comp_size * (stored ? 1 : kMaxDeflateRatio)) {
    return DataError("{} claims {} bytes ({} packed), more than an archive of {} can hold", what, stat.size,
                     stat.comp_size, archive_size);
  }
  return static_cast<int64_t>(stat.size);
}

}  // namespace

StatusOr<std::vector<NpzMember>> OpenNpz(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::Open(path));
  if (file->size() == 0) return DataError("{} is empty (0 bytes)", path);
  ASSIGN_OR_RETURN(const ZipHandle zip, OpenZip(path));
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  if (count > kMaxMembers) return DataError("{} has {} members; at most {} are read", path, count, kMaxMembers);
  std::vector<NpzMember> members;
  std::set<std::string> names;
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(count); ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(zip.get(), i, 0, &stat) != 0 || (stat.valid & ZIP_STAT_NAME) == 0) {
      return DataError("{} is damaged: {}", path, zip_strerror(zip.get()));
    }
    std::string name = stat.name;
    const std::string what = fmt::format("{} in {}", name, path);
    constexpr std::string_view kSuffix = ".npy";
    if (name.size() < kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix) {
      return DataError("{} is no .npy", what);
    }
    name.resize(name.size() - kSuffix.size());
    if (!names.insert(name).second) return DataError("{} is there twice", what);
    ASSIGN_OR_RETURN(const int64_t size, CheckedSize(what, stat, file->size()));
    ASSIGN_OR_RETURN(auto array, ArrayStream::Open(what, std::make_unique<ZipEntry>(what, zip, i, size)));
    members.push_back({std::move(name), std::move(array)});
  }
  return members;
}

}  // namespace quant
