#include "tools/tensor_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "libquant/report/as_double.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 4096;

// Calls `visit` for each element of an owned tensor of a real type, in order. Unsupported for other types.
template <typename Visit>
Status VisitElements(const Tensor& tensor, const Visit& visit) {
  std::array<double, kPiece> piece;
  for (int64_t begin = 0; begin < tensor.size(); begin += kPiece) {
    const std::span<double> values(piece.data(), static_cast<size_t>(std::min(kPiece, tensor.size() - begin)));
    RETURN_IF_ERROR(ReadAsDouble(tensor, begin, values));
    for (const double v : values) visit(v);
  }
  return OkStatus();
}

}  // namespace

void TensorStats::Add(const Tensor& tensor) {
  if (const std::vector<Tensor>* items = tensor.list()) {
    for (const Tensor& item : *items) Add(item);
    return;
  }
  elements += tensor.size();
  // Where there are no numbers, nothing is visited and any() stays false.
  VisitElements(tensor, [this](double v) {
    if (!std::isfinite(v)) {
      ++non_finite;
      return;
    }
    min = std::min(min, v);
    max = std::max(max, v);
    sum += v;
  }).IgnoreError();
}

Status ToleranceCheck::Add(const Tensor& expected, const Tensor& got) {
  if (expected.dtype() != got.dtype() || expected.dims() != got.dims()) {
    return GateError("{} was expected and {} came", Describe(expected), Describe(got));
  }
  if (expected.dtype() == DType::kNothing) return OkStatus();
  if (expected.list() != nullptr) {
    for (size_t i = 0; i < expected.list()->size(); ++i) {
      RETURN_IF_ERROR(WithContext(Add((*expected.list())[i], (*got.list())[i]), fmt::format("item {}", i)));
    }
    return OkStatus();
  }
  std::vector<double> wanted;
  wanted.reserve(static_cast<size_t>(expected.size()));
  RETURN_IF_ERROR(VisitElements(expected, [&](double v) { wanted.push_back(v); }));
  size_t i = 0;
  return VisitElements(got, [&](double v) {
    const double want = wanted[i++];
    ++elements_;
    if (v == want || (std::isnan(v) && std::isnan(want))) return;
    const double error = std::abs(v - want);
    const bool within = error <= atol_ + rtol_ * std::abs(want);
    beyond_ += !within;
    if (!(error <= max_abs_)) max_abs_ = error;
    const double needed = (error - atol_) / std::abs(want);
    if (error > atol_ || std::isnan(error))
      needed_rtol_ = std::isnan(needed) ? INFINITY : std::max(needed_rtol_, needed);
  });
}

}  // namespace quant
