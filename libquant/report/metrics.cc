#include "libquant/report/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "libquant/base/parallel.h"
#include "libquant/report/as_double.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 1 << 15;  // elements read at once, in whole rows where rows count

bool HasClassAxis(DType dtype, const Dims& dims) {
  return InfoOf(dtype).is_float && dims.size() >= 2 && dims.back() >= 2;
}

bool MaySaturate(const DTypeInfo& type) { return !type.is_float && type.bits > 1 && type.bits <= 16; }

// A float's place in the order of all floats of its type.
template <typename Float, typename Bits>
double Place(double value) {
  const auto bits = std::bit_cast<Bits>(static_cast<Float>(value));
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const auto magnitude = static_cast<double>(static_cast<Bits>(bits & static_cast<Bits>(~kSign)));
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

double PlaceIn(DType dtype, double value) {
  switch (dtype) {
    case DType::kDouble:
      return Place<double, uint64_t>(value);
    case DType::kFloat16:
      return Place<float16, uint16_t>(value);
    case DType::kBfloat16:
      return Place<bfloat16, uint16_t>(value);
    default:
      return Place<float, uint32_t>(value);
  }
}

bool HasUlps(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

struct Range {
  double low = 0;
  double high = 0;
};

Range RangeOf(const DTypeInfo& type) {
  const double half = std::ldexp(1.0, type.bits - 1);
  return type.is_signed ? Range{-half, half - 1} : Range{0, 2 * half - 1};
}

}  // namespace

struct OutputMetrics::Piece {
  std::span<const double> reference, got;
  DType dtype = DType::kUndefined;  // of the reference
  bool ulps = false;
  std::optional<Range> range;  // of the other's type, where it may saturate
  size_t row = 0;              // length of a row, where rows count
};

void OutputMetrics::Sums::Merge(const Sums& o) {
  elements += o.elements;
  non_finite += o.non_finite;
  saturated += o.saturated;
  max_abs = std::max(max_abs, o.max_abs);
  max_ulp = std::max(max_ulp, o.max_ulp);
  needed_rtol = std::max(needed_rtol, o.needed_rtol);
  needed_atol = std::max(needed_atol, o.needed_atol);
  sum_abs += o.sum_abs;
  square_error += o.square_error;
  square_reference += o.square_reference;
  square_got += o.square_got;
  dot += o.dot;
  low = std::min(low, o.low);
  high = std::max(high, o.high);
}

void OutputMetrics::AddPiece(const Piece& piece, Sums& sums, RowMetrics& rows) {
  for (size_t i = 0; i < piece.reference.size(); ++i) {
    const double reference = piece.reference[i];
    const double got = piece.got[i];
    ++sums.elements;
    if (!std::isfinite(reference) || !std::isfinite(got)) {
      if (reference == got || (std::isnan(reference) && std::isnan(got))) continue;
      ++sums.non_finite;
      sums.max_abs = sums.max_ulp = kInfinity;
      continue;
    }
    const double error = std::abs(got - reference);
    sums.max_abs = std::max(sums.max_abs, error);
    if (error > kAtol) {
      const double needed = reference == 0 ? kInfinity : (error - kAtol) / std::abs(reference);
      sums.needed_rtol = std::max(sums.needed_rtol, needed);
    }
    sums.needed_atol = std::max(sums.needed_atol, error - kRtol * std::abs(reference));
    if (piece.ulps && error > 0) {
      sums.max_ulp = std::max(sums.max_ulp, std::abs(PlaceIn(piece.dtype, reference) - PlaceIn(piece.dtype, got)));
    }
    if (piece.range) sums.saturated += got == piece.range->low || got == piece.range->high;
    sums.sum_abs += error;
    sums.square_error += error * error;
    sums.square_reference += reference * reference;
    sums.square_got += got * got;
    sums.dot += reference * got;
    sums.low = std::min(sums.low, reference);
    sums.high = std::max(sums.high, reference);
  }
  for (size_t at = 0; piece.row > 0 && at < piece.reference.size(); at += piece.row) {
    rows.Add(piece.reference.subspan(at, piece.row), piece.got.subspan(at, piece.row));
  }
}

Status OutputMetrics::Add(const Tensor& reference, const Tensor& got) {
  const auto read = [&](int64_t begin, std::span<double> out) { return ReadAsDouble(reference, begin, out); };
  return Add(Elements{reference.dtype(), reference.dims(), read}, got);
}

Status OutputMetrics::Add(const Elements& reference, const Tensor& got) {
  if (reference.dims != got.dims()) {
    return DataError("dims differ: {}[{}] in the reference, {} in the other", NameOf(reference.dtype),
                     ToString(reference.dims), Describe(got));
  }
  const bool classes = HasClassAxis(reference.dtype, reference.dims) && HasClassAxis(got.dtype(), got.dims());
  const DTypeInfo& type = InfoOf(got.dtype());
  is_float_ = is_float_ || HasUlps(reference.dtype);
  may_saturate_ = may_saturate_ || MaySaturate(type);
  const int64_t row = classes ? reference.dims.back() : 1;
  const int64_t step = std::max<int64_t>(kPiece / row, 1) * row;
  const int64_t pieces = (got.size() + step - 1) / step;
  std::vector<Sums> sums(static_cast<size_t>(pieces));
  std::vector<RowMetrics> rows(sums.size());
  std::vector<Status> states(sums.size());
  ParallelFor(pieces, [&](int64_t p) {
    const auto at = static_cast<size_t>(p);
    const auto count = static_cast<size_t>(std::min(step, got.size() - p * step));
    std::vector<double> ours(count), theirs(count);
    states[at] = reference.read(p * step, ours);
    if (states[at].ok()) states[at] = ReadAsDouble(got, p * step, theirs);
    if (!states[at].ok()) return;
    Piece piece{ours, theirs, reference.dtype, HasUlps(reference.dtype), std::nullopt, 0};
    if (MaySaturate(type)) piece.range = RangeOf(type);
    if (classes) piece.row = static_cast<size_t>(row);
    AddPiece(piece, sums[at], rows[at]);
  });
  for (size_t p = 0; p < sums.size(); ++p) {
    RETURN_IF_ERROR(states[p]);
    sums_.Merge(sums[p]);
    rows_.Merge(rows[p]);
  }
  return OkStatus();
}

void OutputMetrics::Merge(const OutputMetrics& other) {
  sums_.Merge(other.sums_);
  rows_.Merge(other.rows_);
  is_float_ = is_float_ || other.is_float_;
  may_saturate_ = may_saturate_ || other.may_saturate_;
}

double OutputMetrics::mean_abs() const {
  if (non_finite() > 0) return kInfinity;
  return elements() == 0 ? 0 : sums_.sum_abs / static_cast<double>(elements());
}

double OutputMetrics::rmse() const {
  if (non_finite() > 0) return kInfinity;
  return elements() == 0 ? 0 : std::sqrt(sums_.square_error / static_cast<double>(elements()));
}

double OutputMetrics::relative_rms() const {
  if (non_finite() > 0) return kInfinity;
  if (sums_.square_error == 0) return 0;
  return sums_.square_reference == 0 ? kInfinity : std::sqrt(sums_.square_error / sums_.square_reference);
}

double OutputMetrics::cosine() const {
  if (non_finite() > 0) return std::numeric_limits<double>::quiet_NaN();
  if (sums_.square_error == 0) return 1;
  if (sums_.square_reference == 0 || sums_.square_got == 0) return 0;
  return std::clamp(sums_.dot / (std::sqrt(sums_.square_reference) * std::sqrt(sums_.square_got)), -1.0, 1.0);
}

double OutputMetrics::sqnr_db() const {
  if (non_finite() > 0) return -kInfinity;
  if (sums_.square_error == 0) return kInfinity;
  return 10 * std::log10(sums_.square_reference / sums_.square_error);
}

double OutputMetrics::psnr_db() const {
  if (non_finite() > 0) return -kInfinity;
  if (sums_.square_error == 0) return kInfinity;
  return 20 * std::log10((sums_.high - sums_.low) / rmse());
}

std::optional<double> OutputMetrics::max_ulp() const {
  if (!is_float_) return std::nullopt;
  return sums_.max_ulp;
}

std::optional<double> OutputMetrics::saturated() const {
  if (!may_saturate_ || elements() == 0) return std::nullopt;
  return static_cast<double>(sums_.saturated) / static_cast<double>(elements());
}

StatusOr<std::vector<int64_t>> Argmax(const Tensor& scores) {
  if (scores.rank() == 0 || scores.dims().back() == 0) {
    return DataError("{} has no classes along its last axis", Describe(scores));
  }
  const int64_t classes = scores.dims().back();
  std::vector<double> row(static_cast<size_t>(classes));
  std::vector<int64_t> out;
  for (int64_t begin = 0; begin < scores.size(); begin += classes) {
    RETURN_IF_ERROR(ReadAsDouble(scores, begin, row));
    out.push_back(static_cast<int64_t>(PlaceOfLargest(row)));
  }
  return out;
}

}  // namespace quant
