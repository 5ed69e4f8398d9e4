#include "libquant/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

namespace quant {
namespace {

FileId IdOf(const struct stat& st) { return {static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino)}; }

Status WriteFailure(const std::string& path, int error) {
  return OutputError("cannot write {}: {}", path, std::strerror(error));
}

// Temporaries of writes under way, where a signal handler can read them: a fixed table of names, each with a flag that
// is set last. A write that finds no free row is not removed on a signal; nothing else depends on it.
struct PendingName {
  std::atomic<int> state{0};  // 0 free, 1 being filled, 2 in use
  std::array<char, 4096> path;
};
std::array<PendingName, 8> pending_names;

void NotePending(const std::string& path) {
  if (path.size() >= pending_names[0].path.size()) return;
  for (PendingName& row : pending_names) {
    int free = 0;
    if (!row.state.compare_exchange_strong(free, 1)) continue;
    std::memcpy(row.path.data(), path.c_str(), path.size() + 1);
    row.state = 2;
    return;
  }
}

void ForgetPending(const std::string& path) {
  for (PendingName& row : pending_names) {
    if (row.state == 2 && path == row.path.data()) row.state = 0;
  }
}

void OnSignal(int signal) {
  for (PendingName& row : pending_names) {
    if (row.state == 2) unlink(row.path.data());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

Status SyncFolderOf(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return WriteFailure(folder.string(), errno);
  fsync(fd);  // Some file systems refuse to sync a folder; the rename itself has succeeded by now.
  close(fd);
  return OkStatus();
}

}  // namespace

StatusOr<std::shared_ptr<const File>> File::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not hang; it has no effect on regular files.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return DataError("cannot open {}: {}", path, std::strerror(errno));
  struct stat st;
  if (fstat(fd, &st) != 0) {
    int error = errno;
    close(fd);
    return DataError("cannot read {}: {}", path, std::strerror(error));
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return DataError("{} is {}, not a file", path, S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
  }
  return std::shared_ptr<const File>(new File(path, fd, st.st_size, IdOf(st)));
}

File::~File() { close(fd_); }

Status File::Read(int64_t offset, std::span<std::byte> out) const {
  const auto length = static_cast<int64_t>(out.size());
  if (offset < 0 || offset > size_ || length > size_ - offset) {
    return DataError("{} is too short: {} bytes at offset {} are needed, it has {}", path_, length, offset, size_);
  }
  int64_t done = 0;
  while (done < length) {
    ssize_t n = pread(fd_, out.data() + done, static_cast<size_t>(length - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DataError("cannot read {}: {}", path_, std::strerror(errno));
    if (n == 0) return DataError("{} became shorter while it was read", path_);
    done += n;
  }
  return OkStatus();
}

StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(auto file, File::Open(path));
  if (file->size() > max_bytes) return DataError("{} has {} bytes; at most {} are read", path, file->size(), max_bytes);
  std::string text(static_cast<size_t>(file->size()), '\0');
  RETURN_IF_ERROR(file->Read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

StatusOr<FileId> IdOfFile(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return absl::NotFoundError(path);
  return IdOf(st);
}

StatusOr<std::unique_ptr<PendingFile>> PendingFile::Create(const std::string& target) {
  static std::atomic<int> counter{0};
  struct stat st;
  if (stat(target.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    return OutputError("cannot write {}: it exists and is not a file", target);
  }
  std::string temporary = fmt::format("{}.nibble-tmp-{}-{}", target, getpid(), counter++);
  // Noted first, so that there is no moment at which a signal would leave the file behind.
  NotePending(temporary);
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    const int error = errno;
    ForgetPending(temporary);
    return WriteFailure(target, error);
  }
  return std::unique_ptr<PendingFile>(new PendingFile(target, std::move(temporary), fd));
}

void PendingFile::Forget() const { ForgetPending(temporary_); }

void RemovePendingFilesOnSignal() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, OnSignal);
}

PendingFile::~PendingFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_) unlink(temporary_.c_str());
  Forget();
}

Status PendingFile::Reserve(int64_t size) {
  if (size > 0) {
    int error = posix_fallocate(fd_, 0, size);
    if (error == EINVAL || error == EOPNOTSUPP) error = ftruncate(fd_, size) == 0 ? 0 : errno;
    if (error != 0) return WriteFailure(target_, error);
  }
  return OkStatus();
}

Status PendingFile::WriteAt(int64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = pwrite(fd_, bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return WriteFailure(target_, n < 0 ? errno : ENOSPC);
    done += static_cast<size_t>(n);
  }
  return OkStatus();
}

Status CommitFiles(const std::vector<PendingFile*>& in_order) {
  for (PendingFile* file : in_order) {
    if (fsync(file->fd_) != 0) return WriteFailure(file->target_, errno);
    int fd = std::exchange(file->fd_, -1);
    if (close(fd) != 0) return WriteFailure(file->target_, errno);
  }
  if (in_order.size() > 1) unlink(in_order.back()->target_.c_str());
  for (PendingFile* file : in_order) {
    if (rename(file->temporary_.c_str(), file->target_.c_str()) != 0) return WriteFailure(file->target_, errno);
    file->committed_ = true;
  }
  return in_order.empty() ? OkStatus() : SyncFolderOf(in_order.back()->target_);
}

Status WriteFileAtomically(const std::string& target, std::string_view bytes) {
  ASSIGN_OR_RETURN(auto file, PendingFile::Create(target));
  RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(bytes))));
  return CommitFiles({file.get()});
}

}  // namespace quant
