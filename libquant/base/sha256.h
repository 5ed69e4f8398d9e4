// SHA-256, so that anyone can hold a report's hashes against `sha256sum`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libquant/base/status.h"

namespace quant {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::string_view bytes);
  // The whole file, read in pieces. Returns its length; DataError when it can't be read.
  StatusOr<int64_t> AddFile(const std::string& path);
  // 64 hexadecimal digits. Nothing may be added after.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quant
