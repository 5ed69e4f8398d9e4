#include "libquant/numerics/weight_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace quant {
namespace {

template <typename T>
void Grow(std::vector<T>& v, int64_t size) {
  if (v.size() < static_cast<size_t>(size)) v.resize(static_cast<size_t>(size));
}

void HalfToFloat(const std::byte* in, int64_t count, float* out) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i))));
  }
#endif
  for (; i < count; ++i) {
    float16 h;
    std::memcpy(&h, in + 2 * i, 2);
    out[i] = static_cast<float>(h);
  }
}

void Bfloat16ToFloat(const std::byte* in, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t high;
    std::memcpy(&high, in + 2 * i, 2);
    const uint32_t bits = static_cast<uint32_t>(high) << 16;
    std::memcpy(out + i, &bits, 4);
  }
}

// NaNs and infinities of the tile become 0, in a copy if the panel is the tensor's own memory.
void TakeOutNonFinite(WeightTile& tile) {
  Panel& p = tile.panel;
  tile.infinities.clear();
  tile.non_finite = CountNonFinite(p);
  if (tile.non_finite == 0) return;
  if (p.data != tile.floats.data()) {
    Grow(tile.floats, p.rows * p.columns);
    for (int64_t r = 0; r < p.rows; ++r) {
      std::copy_n(p.data + r * p.stride, p.columns, tile.floats.data() + r * p.columns);
    }
    p.data = tile.floats.data();
    p.stride = p.columns;
  }
  for (int64_t r = 0; r < p.rows; ++r) {
    float* row = tile.floats.data() + r * p.stride;
    for (int64_t c = 0; c < p.columns; ++c) {
      if (std::isfinite(row[c])) continue;
      if (std::isinf(row[c])) tile.infinities.push_back({r, c, row[c] < 0});
      row[c] = 0;
    }
  }
}

}  // namespace

std::span<const WeightTile::Infinity> WeightTile::InfinitiesOf(int64_t first, int64_t count) const {
  const auto above = [](const Infinity& at, int64_t row) { return at.row < row; };
  const auto begin = std::lower_bound(infinities.begin(), infinities.end(), first, above);
  const auto end = std::lower_bound(begin, infinities.end(), first + count, above);
  return {begin, end};
}

void WeightTile::PlaceInfinities(int64_t first, int64_t count, const float* limit) {
  for (const Infinity& at : InfinitiesOf(first, count)) {
    const float value = limit[at.column];
    floats[static_cast<size_t>(at.row * panel.stride + at.column)] = at.negative ? -value : value;
  }
}

const float* WeightSource::OwnedFloats() const {
  return tensor_.is_owned() && tensor_.dtype() == DType::kFloat ? tensor_.data<float>().data() : nullptr;
}

Status WeightSource::ReadFlat(int64_t first, int64_t count, float* out, std::vector<std::byte>& raw) const {
  if (tensor_.dtype() == DType::kFloat) {
    return tensor_.ReadBytes(first * 4, std::as_writable_bytes(std::span(out, static_cast<size_t>(count))));
  }
  const std::byte* in;
  if (tensor_.is_owned()) {
    in = tensor_.bytes().data() + first * 2;
  } else {
    Grow(raw, count * 2);
    RETURN_IF_ERROR(tensor_.ReadBytes(first * 2, std::span(raw.data(), static_cast<size_t>(count * 2))));
    in = raw.data();
  }
  if (tensor_.dtype() == DType::kFloat16) {
    HalfToFloat(in, count, out);
  } else {
    Bfloat16ToFloat(in, count, out);
  }
  return OkStatus();
}

Status WeightSource::ReadTile(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const {
  tile.k = k;
  tile.c = c;
  if (view_.inner > 0) {
    RETURN_IF_ERROR(ReadRuns(k, rows, c, columns, tile));
  } else if (channels_contiguous()) {
    RETURN_IF_ERROR(ReadRows(k, rows, c, columns, tile));
  } else {
    RETURN_IF_ERROR(ReadTransposed(k, rows, c, columns, tile));
  }
  TakeOutNonFinite(tile);
  return OkStatus();
}

Status WeightSource::ReadRows(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const {
  const int64_t stride = view_.reduction_stride;
  if (const float* owned = OwnedFloats()) {
    tile.panel = {owned + k * stride + c, stride, rows, columns};
    return OkStatus();
  }
  Grow(tile.floats, rows * columns);
  tile.panel = {tile.floats.data(), columns, rows, columns};
  if (columns == stride) return ReadFlat(k * stride, rows * columns, tile.floats.data(), tile.raw);
  for (int64_t r = 0; r < rows; ++r) {
    RETURN_IF_ERROR(ReadFlat((k + r) * stride + c, columns, tile.floats.data() + r * columns, tile.raw));
  }
  return OkStatus();
}

// Every run of `inner` reduction indices is turned by itself.
Status WeightSource::ReadRuns(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const {
  const int64_t inner = view_.inner;
  Grow(tile.floats, rows * columns);
  tile.panel = {tile.floats.data(), columns, rows, columns};
  for (int64_t row = 0; row < rows;) {
    const int64_t outer = (k + row) / inner, from = (k + row) % inner;
    const int64_t length = std::min(inner - from, rows - row);
    Grow(tile.rows, columns * inner);
    RETURN_IF_ERROR(ReadFlat((outer * view_.channels + c) * inner, columns * inner, tile.rows.data(), tile.raw));
    TransposeFloats(tile.rows.data() + from, inner, columns, length, tile.floats.data() + row * columns, columns);
    row += length;
  }
  return OkStatus();
}

Status WeightSource::ReadTransposed(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const {
  // As many channels at a time as a cache line of the panel has floats.
  constexpr int64_t kTogether = 16;
  const int64_t stride = view_.channel_stride;
  Grow(tile.floats, rows * columns);
  tile.panel = {tile.floats.data(), columns, rows, columns};
  const float* owned = OwnedFloats();
  for (int64_t j = 0; j < columns; j += kTogether) {
    const int64_t n = std::min(kTogether, columns - j);
    const int64_t first = (c + j) * stride + k;
    if (owned != nullptr) {
      TransposeFloats(owned + first, stride, n, rows, tile.floats.data() + j, columns);
      continue;
    }
    Grow(tile.rows, n * rows);
    if (rows == stride) {
      RETURN_IF_ERROR(ReadFlat(first, n * rows, tile.rows.data(), tile.raw));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        RETURN_IF_ERROR(ReadFlat(first + i * stride, rows, tile.rows.data() + i * rows, tile.raw));
      }
    }
    TransposeFloats(tile.rows.data(), rows, n, rows, tile.floats.data() + j, columns);
  }
  return OkStatus();
}

}  // namespace quant
