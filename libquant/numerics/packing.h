// Codes as ONNX stores them: 4-bit codes two a byte over the whole tensor, row-major, the first in the low nibble, an
// odd end filled with 0; rows are not byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

// `count` codes, a byte each with the code in its low 4 bits, into ceil(count / 2) bytes.
void PackNibbles(const uint8_t* codes, int64_t count, std::byte* out);

// Codes [offset, offset + count) of packed ones of 2 or 4 bits, in either direction. PackCodes takes the low bits of
// each code and needs zeroed bytes.
void UnpackCodes(const std::byte* bytes, int bits, bool is_signed, int64_t offset, int64_t count, int32_t* out);
void PackCodes(const int32_t* codes, int bits, int64_t offset, int64_t count, std::byte* out);

// Writes a matrix of 4- or 8-bit codes to a sink rectangle by rectangle, from any threads. Where two rectangles meet
// inside a byte, the halves wait here for each other, so that each byte is written once.
class CodeWriter {
 public:
  CodeWriter(ByteSink* sink, int bits, int64_t rows, int64_t columns)
      : sink_(sink), bits_(bits), columns_(columns), total_(rows * columns) {}

  // `codes` is the rectangle, rows * columns bytes without gaps; `scratch` is for packing.
  Status Write(int64_t row, int64_t rows, int64_t column, int64_t columns, const uint8_t* codes,
               std::vector<std::byte>& scratch);
  // BugError unless every byte has been written, as far as halves can tell.
  Status Finish() const;

 private:
  Status WriteRun(int64_t first, int64_t count, const uint8_t* codes, std::vector<std::byte>& scratch);
  Status WriteHalf(int64_t byte, uint8_t half);

  ByteSink* sink_;
  int bits_;
  int64_t columns_;
  int64_t total_;
  std::mutex mutex_;
  std::unordered_map<int64_t, uint8_t> halves_;  // by byte; the other half's bits are 0
};

}  // namespace quant
