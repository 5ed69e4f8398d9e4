// A temporary folder, and tensors in a line.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libquant/ir/named_tensors.h"

namespace quant {

class TempFolder {
 public:
  TempFolder() {
    static std::atomic<int> next = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("nibble_data_" + std::to_string(getpid()) + "_" + std::to_string(next++));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return *this / name;
  }
  std::string MakeFolder(const std::string& name) const {
    std::filesystem::create_directories(path_ / name);
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string Testdata(const std::string& name) { return std::string(NIBBLE_SOURCE_DIR "/testdata/npy/") + name; }

template <typename T>
Tensor Make(Dims dims, const std::vector<T>& values) {
  if (values.empty()) return Tensor::Allocate(DTypeOf<T>(), std::move(dims));
  return Tensor::Of<T>(std::move(dims), std::span<const T>(values));
}
template <typename T>
std::vector<T> ValuesOf(const Tensor& t) {
  return {t.data<T>().begin(), t.data<T>().end()};
}

}  // namespace quant
