// Bytes read front to back: a file's, a zip entry's, or memory's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "libquant/base/status.h"

namespace quant {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual int64_t size() const = 0;
  // Fills `out` from `offset`; DataError when that is not inside. Going back may cost a pass from the front.
  virtual Status Read(int64_t offset, std::span<std::byte> out) = 0;
};

StatusOr<std::unique_ptr<ByteStream>> OpenFileStream(const std::string& path);
// The bytes must outlive the stream.
std::unique_ptr<ByteStream> MemoryStream(std::string what, std::span<const std::byte> bytes);

}  // namespace quant
