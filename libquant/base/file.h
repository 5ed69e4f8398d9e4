// Files: positional reads without shared state, and outputs that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

// Device and inode: two paths with equal ids are the same file.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// A regular file opened for reading. Reads are pread: safe from any thread, and the pages read are not
// counted in the process's resident memory (a mapping's are).
class File {
 public:
  // DataError when it is missing, not a regular file, or unreadable.
  static StatusOr<std::shared_ptr<const File>> Open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  FileId id() const { return id_; }
  // Fills `out` from `offset`; DataError when the range is not inside the file.
  Status Read(int64_t offset, std::span<std::byte> out) const;

 private:
  File(std::string path, int fd, int64_t size, FileId id) : path_(std::move(path)), fd_(fd), size_(size), id_(id) {}
  std::string path_;
  int fd_;
  int64_t size_;
  FileId id_;
};

StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes);
// Id of an existing file; NotFound (a non-error for callers that ask) when there is none.
StatusOr<FileId> IdOfFile(const std::string& path);

// A file being written beside its target, under a temporary name in the same folder. Destroyed without
// Commit, it vanishes and the target is as it was.
class PendingFile {
 public:
  static StatusOr<std::unique_ptr<PendingFile>> Create(const std::string& target);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  const std::string& target() const { return target_; }
  const std::string& temporary() const { return temporary_; }
  // Sets the final size and reserves the disk blocks: a full disk shows here, before the work is done.
  Status Reserve(int64_t size);
  // Safe from several threads when ranges are disjoint.
  Status WriteAt(int64_t offset, std::span<const std::byte> bytes);

 private:
  friend Status CommitFiles(const std::vector<PendingFile*>& in_order);
  PendingFile(std::string target, std::string temporary, int fd)
      : target_(std::move(target)), temporary_(std::move(temporary)), fd_(fd) {}
  // Ends the signal handler's interest in the temporary.
  void Forget() const;
  std::string target_;
  std::string temporary_;
  int fd_;
  bool committed_ = false;
};

// Syncs all files, then renames them in order. With more than one, the last one's old target is unlinked
// first: a crash in between leaves no model rather than a model with another model's data.
Status CommitFiles(const std::vector<PendingFile*>& in_order);

// From now on an interrupt, hang-up or termination removes the temporary files of writes under way, then ends the
// process as it would have. For main functions only.
void RemovePendingFilesOnSignal();

// Whole-file convenience over PendingFile.
Status WriteFileAtomically(const std::string& target, std::string_view bytes);

}  // namespace quant
