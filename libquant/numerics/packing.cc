#include "libquant/numerics/packing.h"

#include <cstring>

namespace quant {

void PackNibbles(const uint8_t* codes, int64_t count, std::byte* out) {
  const int64_t pairs = count / 2;
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  for (int64_t i = 0; i < pairs; ++i) {
    bytes[i] = static_cast<uint8_t>((codes[2 * i] & 15) | (codes[2 * i + 1] << 4));
  }
  if (count % 2 != 0) bytes[pairs] = codes[count - 1] & 15;
}

void UnpackCodes(const std::byte* bytes, int bits, bool is_signed, int64_t offset, int64_t count, int32_t* out) {
  const int per_byte = 8 / bits;
  const int32_t mask = (1 << bits) - 1, sign = is_signed ? 1 << (bits - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = offset + i;
    const int32_t raw = (static_cast<int32_t>(bytes[at / per_byte]) >> (at % per_byte * bits)) & mask;
    out[i] = (raw ^ sign) - sign;
  }
}

void PackCodes(const int32_t* codes, int bits, int64_t offset, int64_t count, std::byte* out) {
  const int per_byte = 8 / bits;
  const int32_t mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = offset + i;
    out[at / per_byte] |= static_cast<std::byte>((codes[i] & mask) << (at % per_byte * bits));
  }
}

Status CodeWriter::Write(int64_t row, int64_t rows, int64_t column, int64_t columns, const uint8_t* codes,
                         std::vector<std::byte>& scratch) {
  if (columns == columns_) return WriteRun(row * columns_, rows * columns, codes, scratch);
  for (int64_t r = 0; r < rows; ++r) {
    RETURN_IF_ERROR(WriteRun((row + r) * columns_ + column, columns, codes + r * columns, scratch));
  }
  return OkStatus();
}

Status CodeWriter::WriteRun(int64_t first, int64_t count, const uint8_t* codes, std::vector<std::byte>& scratch) {
  if (count == 0) return OkStatus();
  if (bits_ == 8) {
    return sink_->Write(first, std::as_bytes(std::span(codes, static_cast<size_t>(count))));
  }
  if (first % 2 != 0) {
    RETURN_IF_ERROR(WriteHalf(first / 2, static_cast<uint8_t>(codes[0] << 4)));
    ++first;
    ++codes;
    --count;
  }
  const bool shares_last = count % 2 != 0 && first + count < total_;
  if (shares_last) {
    --count;
    RETURN_IF_ERROR(WriteHalf((first + count) / 2, codes[count] & 15));
  }
  if (count == 0) return OkStatus();
  const auto bytes = static_cast<size_t>((count + 1) / 2);
  if (scratch.size() < bytes) scratch.resize(bytes);
  PackNibbles(codes, count, scratch.data());
  return sink_->Write(first / 2, std::span(scratch.data(), bytes));
}

Status CodeWriter::WriteHalf(int64_t byte, uint8_t half) {
  std::byte whole;
  {
    const std::lock_guard lock(mutex_);
    auto [at, first] = halves_.try_emplace(byte, half);
    if (first) return OkStatus();
    whole = static_cast<std::byte>(at->second | half);
    halves_.erase(at);
  }
  return sink_->Write(byte, std::span(&whole, 1));
}

Status CodeWriter::Finish() const {
  if (halves_.empty()) return OkStatus();
  return BugError("{} bytes of packed codes have only one half", halves_.size());
}

}  // namespace quant
