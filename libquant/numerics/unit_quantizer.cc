#include "libquant/numerics/unit_quantizer.h"

#include <algorithm>
#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/numerics/column_kernels.h"

namespace quant {
namespace {

// Parameters turned round at a time.
constexpr int64_t kTurned = int64_t{1} << 16;

template <typename T>
void Grow(std::vector<T>& v, int64_t size) {
  if (v.size() < static_cast<size_t>(size)) v.resize(static_cast<size_t>(size));
}

}  // namespace

int64_t UnitQuantizer::Granules(const WeightUnit& unit) const { return CeilDiv(unit.k_end - unit.k, plan_.granule); }

Status UnitQuantizer::Run(const WeightUnit& unit) {
  // One scale for all needs no copies of it, unless they are stored.
  const int64_t granules = run_.fixed && plan_.parameters == 0 ? 1 : Granules(unit);
  const int64_t count = granules * unit.columns;
  Grow(scale_, count);
  Grow(zero_, count);
  Grow(limit_, count);
  if (run_.fixed) {
    std::fill_n(scale_.begin(), count, run_.fixed->scale);
    std::fill_n(zero_.begin(), count, run_.fixed->zero_point);
    std::fill_n(limit_.begin(), count, run_.fixed_limit);
  } else {
    for (int64_t g = 0; g < granules; ++g) RETURN_IF_ERROR(ChooseGranule(unit, g));
    // The run fails in the end, but not before everything is counted.
    if (run_.overflow || (run_.non_finite > 0 && plan_.spec.non_finite == NonFinite::kError)) return OkStatus();
  }
  for (int64_t k = unit.k; k < unit.k_end; k += plan_.tile_reduction) {
    const int64_t k_end = std::min(k + plan_.tile_reduction, unit.k_end);
    RETURN_IF_ERROR(Load(unit, k, false));
    MakeCodes(unit, k, k_end);
    RETURN_IF_ERROR(WriteCodes(unit, k, k_end));
  }
  return WriteParameters(unit);
}

Status UnitQuantizer::Load(const WeightUnit& unit, int64_t k, bool first_time) {
  const int64_t k_end = std::min({k + plan_.tile_reduction, unit.k_end, plan_.view.reduction});
  const int64_t rows = std::max<int64_t>(k_end - k, 0);  // none where kNBits has only filler
  if (tile_.k == k && tile_.c == unit.c && tile_.panel.rows == rows) return OkStatus();
  if (rows == 0) {
    tile_.k = k;
    tile_.c = unit.c;
    tile_.panel.rows = 0;
    return OkStatus();
  }
  RETURN_IF_ERROR(run_.source.ReadTile(k, rows, unit.c, unit.columns, tile_));
  if (first_time) run_.non_finite += tile_.non_finite;
  return OkStatus();
}

template <typename Body>
Status UnitQuantizer::ForPieces(const WeightUnit& unit, int64_t k, int64_t k_end, bool first_time, const Body& body) {
  while (k < k_end) {
    const int64_t tile_k = unit.k + (k - unit.k) / plan_.tile_reduction * plan_.tile_reduction;
    RETURN_IF_ERROR(Load(unit, tile_k, first_time));
    Piece piece{tile_.panel, k - tile_k};
    piece.panel.data += piece.row * piece.panel.stride;
    piece.panel.rows = std::min(k_end, tile_k + tile_.panel.rows) - k;
    body(piece);
    k += piece.panel.rows;
  }
  return OkStatus();
}

Status UnitQuantizer::ChooseGranule(const WeightUnit& unit, int64_t index) {
  const int64_t n = unit.columns;
  const int64_t k = unit.k + index * plan_.granule;
  const int64_t k_end = std::min({k + plan_.granule, unit.k_end, plan_.view.reduction});
  const auto at = static_cast<size_t>(index * n);
  min_.assign(static_cast<size_t>(n), 0.0f);
  max_.assign(static_cast<size_t>(n), 0.0f);
  infinite_.clear();
  RETURN_IF_ERROR(ForPieces(unit, k, k_end, true, [&](const Piece& piece) {
    ColumnRange(piece.panel, min_.data(), max_.data());
    if (!tile_.infinities.empty()) NoteInfinities(piece.row, piece.panel.rows);
  }));
  for (int64_t c = 0; c < n; ++c) limit_[at + c] = std::max(max_[c], -min_[c]);
  if (!infinite_.empty()) WidenForInfinities();
  if (!ChooseScales(plan_.rule, n, min_.data(), max_.data(), scale_.data() + at, zero_.data() + at)) {
    run_.overflow = true;
    return OkStatus();
  }
  if (const auto& least = plan_.spec.least_scales) {
    for (int64_t c = 0; c < n; ++c) {
      scale_[at + c] = std::max(scale_[at + c], (*least)[static_cast<size_t>(unit.c + c)]);
    }
  }
  return plan_.rule.try_negative ? PreferNegative(unit, k, k_end, at) : OkStatus();
}

void UnitQuantizer::NoteInfinities(int64_t row, int64_t rows) {
  for (const WeightTile::Infinity& i : tile_.InfinitiesOf(row, rows)) {
    infinite_.resize(min_.size());
    infinite_[static_cast<size_t>(i.column)] |= i.negative ? 2 : 1;
  }
}

void UnitQuantizer::WidenForInfinities() {
  for (size_t c = 0; c < infinite_.size(); ++c) {
    RangeStats range;
    range.min = min_[c];
    range.max = max_[c];
    range.positive_infinity = (infinite_[c] & 1) != 0;
    range.negative_infinity = (infinite_[c] & 2) != 0;
    range.TakeInfinitiesAsLargest();
    min_[c] = range.min;
    max_[c] = range.max;
  }
}

Status UnitQuantizer::PreferNegative(const WeightUnit& unit, int64_t k, int64_t k_end, size_t at) {
  const ScaleRule& rule = plan_.rule;
  const auto n = static_cast<size_t>(unit.columns);
  error_.assign(n, 0.0);
  negative_error_.assign(n, 0.0);
  negative_scale_.resize(n);
  ChooseNegativeScales(rule, unit.columns, min_.data(), max_.data(), negative_scale_.data());
  const int32_t low = rule.qmin - rule.zero_point;
  const int32_t high = rule.qmax - rule.zero_point;
  RETURN_IF_ERROR(ForPieces(unit, k, k_end, false, [&](const Piece& piece) {
    tile_.PlaceInfinities(piece.row, piece.panel.rows, limit_.data() + at);
    ColumnErrors(piece.panel, scale_.data() + at, low, high, error_.data());
    ColumnErrors(piece.panel, negative_scale_.data(), low, high, negative_error_.data());
  }));
  for (size_t c = 0; c < n; ++c) {
    if (negative_error_[c] < error_[c]) scale_[at + c] = negative_scale_[c];
  }
  return OkStatus();
}

void UnitQuantizer::MakeCodes(const WeightUnit& unit, int64_t k, int64_t k_end) {
  const int64_t n = unit.columns;
  Grow(codes_, (k_end - k) * n);
  stored_zero_.resize(static_cast<size_t>(n));
  const int32_t qmin = plan_.rule.qmin + plan_.code_offset;
  const int32_t qmax = plan_.rule.qmax + plan_.code_offset;
  while (k < k_end) {
    // One scale for all: no need to step by granules.
    const int64_t granule = run_.fixed ? 0 : (k - unit.k) / plan_.granule;
    const int64_t next = run_.fixed ? k_end : std::min(k_end, unit.k + (granule + 1) * plan_.granule);
    const int64_t at = granule * n;
    for (int64_t c = 0; c < n; ++c) stored_zero_[c] = zero_[at + c] + plan_.code_offset;
    int64_t row = k - tile_.k;
    if (row < tile_.panel.rows) {
      Panel panel = tile_.panel;
      panel.data += row * panel.stride;
      panel.rows = std::min(next - tile_.k, panel.rows) - row;
      tile_.PlaceInfinities(row, panel.rows, limit_.data() + at);
      ColumnCodes(panel, scale_.data() + at, stored_zero_.data(), qmin, qmax, codes_.data() + row * n);
      row += panel.rows;
    }
    // The filler of kNBits: what dequantizes to 0.
    for (; row < next - tile_.k; ++row) {
      for (int64_t c = 0; c < n; ++c) codes_[row * n + c] = static_cast<uint8_t>(stored_zero_[c]);
    }
    k = next;
  }
}

Status UnitQuantizer::WriteCodes(const WeightUnit& unit, int64_t k, int64_t k_end) {
  const int64_t rows = k_end - k;
  if (plan_.reduction_major()) {
    return run_.codes.Write(k, rows, unit.c, unit.columns, codes_.data(), bytes_);
  }
  Grow(turned_, rows * unit.columns);
  if (plan_.view.inner > 0) return WriteRuns(unit, k, k_end);
  TransposeBytes(codes_.data(), rows, unit.columns, turned_.data());
  return run_.codes.Write(unit.c, unit.columns, k, rows, turned_.data(), bytes_);
}

Status UnitQuantizer::WriteRuns(const WeightUnit& unit, int64_t k, int64_t k_end) {
  const int64_t inner = plan_.view.inner, columns = unit.columns;
  const uint8_t* codes = codes_.data();
  while (k < k_end) {
    const int64_t outer = k / inner, from = k % inner;
    const int64_t length = std::min(inner - from, k_end - k);
    TransposeBytes(codes, length, columns, turned_.data());
    if (length == inner) {
      RETURN_IF_ERROR(run_.codes.Write(outer, 1, unit.c * inner, columns * inner, turned_.data(), bytes_));
    } else {
      for (int64_t j = 0; j < columns; ++j) {
        const uint8_t* run = turned_.data() + j * length;
        RETURN_IF_ERROR(run_.codes.Write(outer, 1, (unit.c + j) * inner + from, length, run, bytes_));
      }
    }
    codes += length * columns;
    k += length;
  }
  return OkStatus();
}

Status UnitQuantizer::WriteParameters(const WeightUnit& unit) {
  if (plan_.parameters == 0) return OkStatus();  // one for all: not ours to write
  const int64_t n = unit.columns;
  const int64_t granules = Granules(unit);
  const int64_t first = unit.k / plan_.granule * plan_.repeat;
  if (plan_.reduction_major()) {
    RETURN_IF_ERROR(WriteScales(first, granules, unit.c, n, plan_.view.channels, scale_.data()));
    if (run_.zero_points == nullptr) return OkStatus();
    Grow(turned_, granules * n);
    for (int64_t i = 0; i < granules * n; ++i) turned_[i] = static_cast<uint8_t>(zero_[i]);
    return run_.zero_points->Write(first, granules, unit.c, n, turned_.data(), bytes_);
  }
  const int64_t scales = granules * plan_.repeat;
  const bool last = first + scales == plan_.parameters;
  const int64_t zeros = scales + (last ? plan_.zero_row() - plan_.parameters : 0);
  const int64_t together = std::clamp<int64_t>(kTurned / zeros, 1, n);
  for (int64_t c = 0; c < n; c += together) {
    const int64_t count = std::min(together, n - c);
    Grow(turned_scale_, count * scales);
    turned_.assign(std::max(turned_.size(), static_cast<size_t>(count * zeros)), 0);
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t s = 0; s < scales; ++s) {
        const int64_t at = s / plan_.repeat * n + c + j;
        turned_scale_[j * scales + s] = scale_[at];
        turned_[j * zeros + s] = static_cast<uint8_t>(zero_[at] + plan_.code_offset);
      }
    }
    RETURN_IF_ERROR(WriteScales(unit.c + c, count, first, scales, plan_.parameters, turned_scale_.data()));
    if (run_.zero_points == nullptr) continue;
    RETURN_IF_ERROR(run_.zero_points->Write(unit.c + c, count, first, zeros, turned_.data(), bytes_));
  }
  return OkStatus();
}

Status UnitQuantizer::WriteScales(int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t row_length,
                                  const float* values) {
  const int64_t count = rows * columns;
  const bool half = plan_.rule.half_scales;
  const int64_t size = half ? 2 : 4;
  const std::byte* bytes = reinterpret_cast<const std::byte*>(values);
  if (half) {
    Grow(bytes_, count * size);
    for (int64_t i = 0; i < count; ++i) {
      const float16 scale(values[i]);
      std::memcpy(bytes_.data() + i * size, &scale, 2);
    }
    bytes = bytes_.data();
  }
  if (columns == row_length) {
    return run_.scales.Write(row * row_length * size, std::span(bytes, static_cast<size_t>(count * size)));
  }
  for (int64_t r = 0; r < rows; ++r) {
    RETURN_IF_ERROR(run_.scales.Write(((row + r) * row_length + column) * size,
                                      std::span(bytes + r * columns * size, static_cast<size_t>(columns * size))));
  }
  return OkStatus();
}

}  // namespace quant
