#include "libquant/lint/weight_scan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "libquant/base/parallel.h"

namespace quant {
namespace {

constexpr int64_t kPieceBytes = 2 << 20;
constexpr size_t kPiecesAtOnce = 64;

// Bits of float32 magnitudes.
constexpr uint32_t kMagnitude = 0x7FFFFFFF;
constexpr uint32_t kInfinity = 0x7F800000;
constexpr uint32_t kLeastNormal = 0x00800000;
constexpr uint32_t kHalfOverflow = 0x477FF000;   // 65520, the least that rounds to infinity
constexpr uint32_t kHalfUnderflow = 0x33000000;  // 2^-25, the largest that rounds to 0
constexpr int kBinShift = 16;
constexpr size_t kBins = size_t{1} << (31 - kBinShift);

using Histogram = std::vector<int64_t>;

struct Piece {
  size_t request;
  int64_t offset;
  int64_t length;
};

struct PieceStats {
  WeightStats stats;
  uint32_t largest_bits = 0;
  uint64_t first = 0;               // bits of its first element
  std::vector<uint32_t> histogram;  // by the upper bits of magnitudes; empty when not asked for
  Status status;
};

bool IsScannedFloat(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

// Four lanes of multiply and rotate, so that the processor need not wait for one.
uint64_t HashBytes(std::span<const std::byte> bytes) {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;
  std::array<uint64_t, 4> lanes = {1, 2, 3, bytes.size()};
  const size_t blocks = bytes.size() / 32;
  for (size_t b = 0; b < blocks; ++b) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), bytes.data() + b * 32, 32);
    for (size_t i = 0; i < 4; ++i) lanes[i] = std::rotl((lanes[i] ^ words[i]) * kPrime, 29);
  }
  for (size_t i = blocks * 32; i < bytes.size(); ++i) {
    lanes[0] = std::rotl((lanes[0] ^ static_cast<uint64_t>(bytes[i])) * kPrime, 29);
  }
  uint64_t hash = 0;
  for (uint64_t lane : lanes) hash = (std::rotl(hash, 17) ^ lane) * kPrime;
  return hash ^ (hash >> 32);
}

void CountFloats(std::span<const uint32_t> values, bool denormals, PieceStats& out) {
  uint32_t nans = 0, infinities = 0, zeros = 0, small = 0, over = 0, under = 0, largest = 0;
  for (const uint32_t bits : values) {
    const uint32_t m = bits & kMagnitude;
    nans += m > kInfinity ? 1 : 0;
    infinities += m == kInfinity ? 1 : 0;
    zeros += m == 0 ? 1 : 0;
    small += m - 1 < kLeastNormal - 1 ? 1 : 0;
    over += m - kHalfOverflow < kInfinity - kHalfOverflow ? 1 : 0;
    under += m - 1 < kHalfUnderflow ? 1 : 0;
    largest = std::max(largest, m < kInfinity ? m : 0);
  }
  out.stats.nans += nans;
  out.stats.infinities += infinities;
  out.stats.zeros += zeros;
  if (denormals) out.stats.denormals += small;
  out.stats.half_overflows += over;
  out.stats.half_underflows += under;
  out.largest_bits = std::max(out.largest_bits, largest);
  if (out.histogram.empty()) return;
  for (const uint32_t bits : values) ++out.histogram[(bits & kMagnitude) >> kBinShift];
}

// Through float32, in blocks; a double that is finite stays finite.
template <typename T>
void CountConverted(std::span<const std::byte> bytes, bool denormals, PieceStats& out) {
  constexpr size_t kBlock = 4096;
  std::array<uint32_t, kBlock> block;
  const size_t count = bytes.size() / sizeof(T);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    for (size_t i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + (begin + i) * sizeof(T), sizeof(T));
      float narrow = static_cast<float>(value);
      if constexpr (std::is_same_v<T, double>) {
        if (std::isfinite(value) && !std::isfinite(narrow)) narrow = std::numeric_limits<float>::max();
        if (value != 0 && narrow == 0) narrow = std::numeric_limits<float>::denorm_min();
      }
      block[i] = std::bit_cast<uint32_t>(narrow);
    }
    CountFloats({block.data(), n}, denormals, out);
  }
}

template <typename T>
void FindExtremes(std::span<const std::byte> bytes, PieceStats& out) {
  const std::span values(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  out.stats.least = *least;
  out.stats.most = *most;
}

void CountElements(DType dtype, std::span<const std::byte> bytes, PieceStats& out) {
  if (dtype == DType::kFloat) {
    CountFloats({reinterpret_cast<const uint32_t*>(bytes.data()), bytes.size() / 4}, true, out);
  } else if (dtype == DType::kDouble) {
    CountConverted<double>(bytes, false, out);
  } else if (dtype == DType::kFloat16) {
    CountConverted<float16>(bytes, false, out);
  } else if (dtype == DType::kBfloat16) {
    CountConverted<bfloat16>(bytes, true, out);
  } else if (dtype == DType::kInt64) {
    FindExtremes<int64_t>(bytes, out);
  } else if (dtype == DType::kInt8) {
    FindExtremes<int8_t>(bytes, out);
  }
}

// Elements of `size` bytes are all as the first.
bool IsUniform(std::span<const std::byte> bytes, size_t size) {
  return bytes.size() <= size || std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

PieceStats ScanPiece(const ScanRequest& request, const Piece& piece) {
  PieceStats out;
  const Tensor& tensor = *request.tensor;
  std::span<const std::byte> bytes;
  std::optional<Buffer> buffer;
  if (tensor.is_owned()) {
    bytes = tensor.bytes().subspan(static_cast<size_t>(piece.offset), static_cast<size_t>(piece.length));
  } else {
    buffer.emplace(piece.length);
    const std::span<std::byte> into(buffer->data(), static_cast<size_t>(piece.length));
    out.status = tensor.ReadBytes(piece.offset, into);
    if (!out.status.ok()) return out;
    bytes = into;
  }
  out.stats.hash = HashBytes(bytes);
  const DType dtype = tensor.dtype();
  const auto size = static_cast<size_t>(std::max(InfoOf(dtype).bits / 8, 1));
  out.stats.uniform = IsUniform(bytes, size);
  std::memcpy(&out.first, bytes.data(), std::min({size, sizeof(out.first), bytes.size()}));
  if (request.median && IsScannedFloat(dtype)) out.histogram.assign(kBins, 0);
  CountElements(dtype, bytes, out);
  return out;
}

std::optional<double> MedianOf(const Histogram& histogram) {
  int64_t total = 0;
  const size_t end = kInfinity >> kBinShift;
  for (size_t b = 1; b < end; ++b) total += histogram[b];
  int64_t below = 0;
  for (size_t b = 1; b < end; ++b) {
    below += histogram[b];
    if (total == 0 || below * 2 < total) continue;
    const auto middle = static_cast<uint32_t>((b << kBinShift) + (size_t{1} << (kBinShift - 1)));
    return std::bit_cast<float>(middle);
  }
  return std::nullopt;
}

// Puts the pieces of one tensor together, which come in order.
class Joined {
 public:
  explicit Joined(const ScanRequest& request) {
    if (request.median && IsScannedFloat(request.tensor->dtype())) histogram_.assign(kBins, 0);
  }

  void Add(const PieceStats& piece) {
    const WeightStats& p = piece.stats;
    stats_.nans += p.nans;
    stats_.infinities += p.infinities;
    stats_.zeros += p.zeros;
    stats_.denormals += p.denormals;
    stats_.half_overflows += p.half_overflows;
    stats_.half_underflows += p.half_underflows;
    largest_bits_ = std::max(largest_bits_, piece.largest_bits);
    stats_.least = count_ == 0 ? p.least : std::min(stats_.least, p.least);
    stats_.most = count_ == 0 ? p.most : std::max(stats_.most, p.most);
    if (count_ == 0) first_ = piece.first;
    stats_.uniform = stats_.uniform && p.uniform && piece.first == first_;
    stats_.hash = (std::rotl(stats_.hash, 23) ^ p.hash) * 0x100000001B3u;
    for (size_t b = 0; b < piece.histogram.size(); ++b) histogram_[b] += piece.histogram[b];
    ++count_;
  }

  WeightStats Take() {
    stats_.largest = std::bit_cast<float>(largest_bits_);
    if (!histogram_.empty()) stats_.median = MedianOf(histogram_);
    Histogram().swap(histogram_);
    return stats_;
  }

 private:
  WeightStats stats_;
  Histogram histogram_;
  uint32_t largest_bits_ = 0;
  uint64_t first_ = 0;
  int64_t count_ = 0;
};

std::vector<Piece> PiecesOf(std::span<const ScanRequest> requests) {
  std::vector<Piece> out;
  for (size_t r = 0; r < requests.size(); ++r) {
    const int64_t bytes = requests[r].tensor->byte_size();
    for (int64_t at = 0; at < bytes; at += kPieceBytes) out.push_back({r, at, std::min(kPieceBytes, bytes - at)});
  }
  return out;
}

}  // namespace

StatusOr<std::vector<WeightStats>> ScanWeights(std::span<const ScanRequest> requests,
                                               const std::function<void(int64_t done, int64_t total)>& progress) {
  const std::vector<Piece> pieces = PiecesOf(requests);
  std::vector<WeightStats> out(requests.size());
  int64_t total = 0;
  for (const Piece& p : pieces) total += p.length;
  std::atomic<int64_t> done = 0;
  std::optional<Joined> joined;
  for (size_t begin = 0; begin < pieces.size(); begin += kPiecesAtOnce) {
    std::vector<PieceStats> parts(std::min(kPiecesAtOnce, pieces.size() - begin));
    ParallelFor(static_cast<int64_t>(parts.size()), [&](int64_t i) {
      const Piece& piece = pieces[begin + static_cast<size_t>(i)];
      parts[static_cast<size_t>(i)] = ScanPiece(requests[piece.request], piece);
      if (progress) progress(done += piece.length, total);
    });
    for (size_t i = 0; i < parts.size(); ++i) {
      RETURN_IF_ERROR(parts[i].status);
      const Piece& piece = pieces[begin + i];
      if (piece.offset == 0) joined.emplace(requests[piece.request]);
      joined->Add(parts[i]);
      if (piece.offset + piece.length == requests[piece.request].tensor->byte_size()) {
        out[piece.request] = joined->Take();
      }
    }
  }
  return out;
}

StatusOr<bool> SameBytes(const Tensor& a, const Tensor& b) {
  if (a.byte_size() != b.byte_size()) return false;
  const int64_t step = std::min(kPieceBytes, a.byte_size());
  Buffer left(step), right(step);
  for (int64_t at = 0; at < a.byte_size(); at += step) {
    const auto n = static_cast<size_t>(std::min(step, a.byte_size() - at));
    RETURN_IF_ERROR(a.ReadBytes(at, {left.data(), n}));
    RETURN_IF_ERROR(b.ReadBytes(at, {right.data(), n}));
    if (std::memcmp(left.data(), right.data(), n) != 0) return false;
  }
  return true;
}

}  // namespace quant
