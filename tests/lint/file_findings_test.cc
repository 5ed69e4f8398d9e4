// Findings about the files of a model.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "libquant/base/file.h"
#include "tests/lint/lint_model.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("nibble-lint-{}", getpid())) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // A file of this size, which takes no space.
  std::shared_ptr<const File> Make(const std::string& name, int64_t bytes) const {
    const fs::path path = path_ / name;
    std::ofstream(path).close();
    fs::resize_file(path, static_cast<uintmax_t>(bytes));
    const auto file = File::Open(path.string());
    REQUIRE(file.ok());
    return *file;
  }

 private:
  fs::path path_;
};

// A model of these file sizes, whose one weight has 256 KiB of the data file.
Model ModelIn(const Folder& folder, int64_t model_bytes, int64_t data_bytes) {
  Model model = ModelOf("g (float[2,256] x) => (float[2,256] y) <float[1] w = {1}> { [m] y = MatMul(x, w) }");
  model.sources = {folder.Make("m.onnx", model_bytes), folder.Make("m.data", data_bytes)};
  SetConstant(model, "w", Tensor::FromFile(DType::kFloat, {256, 256}, {model.sources[1], 0, 256 << 10}));
  return model;
}

TEST_CASE("external data is named, and what of it nobody uses") {
  const Folder folder;
  const Model model = ModelIn(folder, 100, 256 << 10);
  CHECK(Found(model, "data.external").at(0).where == std::vector<std::string>{"m.data"});
  CHECK(Found(model, "data.unused-bytes").empty());
  CHECK(Found(model, "data.large").empty());
  CHECK(Found(ModelIn(folder, 100, (256 << 10) + 4096), "data.unused-bytes").empty());  // alignment
  CHECK(Found(ModelIn(folder, 100, 4 << 20), "data.unused-bytes").at(0).where ==
        std::vector<std::string>{"m.data: 3.75 MiB"});
}

TEST_CASE("files over 2 GiB") {
  const Folder folder;
  constexpr int64_t kLimit = int64_t{1} << 31;
  CHECK(Found(ModelIn(folder, kLimit - 1, 256 << 10), "data.protobuf-limit").empty());
  const Model inside = ModelIn(folder, kLimit, 256 << 10);
  CHECK(Found(inside, "data.protobuf-limit").at(0).severity == Severity::kError);
  const Model beside = ModelIn(folder, 100, kLimit);
  CHECK(Found(beside, "data.protobuf-limit").empty());
  CHECK(Found(beside, "data.large").size() == 1);
}

}  // namespace
}  // namespace quant
