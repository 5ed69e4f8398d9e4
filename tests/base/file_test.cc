#include "libquant/base/file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("nibble-file-test-" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path), {})); }
  fs::path path;
};

std::string Content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_CASE("reads are checked against the file's length") {
  Folder folder;
  REQUIRE(WriteFileAtomically(folder / "a", "hello").ok());
  auto file = File::Open(folder / "a");
  REQUIRE(file.ok());
  std::byte out[4];
  CHECK((*file)->Read(1, out).ok());
  CHECK((*file)->Read(2, out).code() == absl::StatusCode::kDataLoss);
  CHECK((*file)->Read(-1, out).code() == absl::StatusCode::kDataLoss);
  CHECK((*file)->Read(INT64_MAX, out).code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("folders, pipes and missing files are refused") {
  Folder folder;
  CHECK(ExitCode(File::Open(folder.path.string()).status()) == 3);
  CHECK(ExitCode(File::Open(folder / "none").status()) == 3);
  CHECK(ExitCode(File::Open("/dev/null").status()) == 3);
}

TEST_CASE("an output that is not committed leaves the target as it was") {
  Folder folder;
  REQUIRE(WriteFileAtomically(folder / "out", "old").ok());
  {
    auto pending = PendingFile::Create(folder / "out");
    REQUIRE(pending.ok());
    REQUIRE((*pending)->WriteAt(0, Bytes("new and longer")).ok());
  }
  CHECK(Content(folder / "out") == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a pair of files is renamed data first") {
  Folder folder;
  REQUIRE(WriteFileAtomically(folder / "m.onnx", "old model").ok());
  auto data = PendingFile::Create(folder / "m.onnx.data");
  auto model = PendingFile::Create(folder / "m.onnx");
  REQUIRE((data.ok() && model.ok()));
  REQUIRE((*data)->Reserve(3).ok());
  REQUIRE((*data)->WriteAt(0, Bytes("dat")).ok());
  REQUIRE((*model)->WriteAt(0, Bytes("new model")).ok());
  REQUIRE(CommitFiles({data->get(), model->get()}).ok());
  CHECK(Content(folder / "m.onnx") == "new model");
  CHECK(Content(folder / "m.onnx.data") == "dat");
  CHECK(folder.entries() == 2);
}

TEST_CASE("an output that cannot be made says so with exit 5") {
  Folder folder;
  CHECK(ExitCode(WriteFileAtomically(folder / "no-such-folder/x", "a")) == 5);
  fs::create_directory(folder / "dir");
  CHECK(ExitCode(WriteFileAtomically(folder / "dir", "a")) == 5);
  CHECK(folder.entries() == 1);
}

}  // namespace
}  // namespace quant
