#include "tools/tensor_stats.h"

#include <algorithm>
#include <cmath>

namespace quant {
namespace {

template <typename T>
Status VisitAs(const Tensor& tensor, const std::function<void(double)>& visit) {
  for (const T v : tensor.data<T>()) visit(static_cast<double>(v));
  return OkStatus();
}

Status VisitNibbles(const Tensor& tensor, const std::function<void(double)>& visit) {
  const std::span<const std::byte> bytes = tensor.bytes();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const int code = std::to_integer<int>(bytes[static_cast<size_t>(i / 2)]) >> (i % 2 * 4) & 15;
    visit(tensor.dtype() == DType::kInt4 && code > 7 ? code - 16 : code);
  }
  return OkStatus();
}

}  // namespace

Status VisitElements(const Tensor& tensor, const std::function<void(double)>& visit) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return VisitAs<float>(tensor, visit);
    case DType::kDouble:
      return VisitAs<double>(tensor, visit);
    case DType::kFloat16:
      return VisitAs<float16>(tensor, visit);
    case DType::kBfloat16:
      return VisitAs<bfloat16>(tensor, visit);
    case DType::kInt8:
      return VisitAs<int8_t>(tensor, visit);
    case DType::kUint8:
      return VisitAs<uint8_t>(tensor, visit);
    case DType::kInt16:
      return VisitAs<int16_t>(tensor, visit);
    case DType::kUint16:
      return VisitAs<uint16_t>(tensor, visit);
    case DType::kInt32:
      return VisitAs<int32_t>(tensor, visit);
    case DType::kUint32:
      return VisitAs<uint32_t>(tensor, visit);
    case DType::kInt64:
      return VisitAs<int64_t>(tensor, visit);
    case DType::kUint64:
      return VisitAs<uint64_t>(tensor, visit);
    case DType::kBool:
      return VisitAs<uint8_t>(tensor, visit);
    case DType::kInt4:
    case DType::kUint4:
      return VisitNibbles(tensor, visit);
    default:
      return Unsupported("{} has no numbers to compare", Describe(tensor));
  }
}

void TensorStats::Add(const Tensor& tensor) {
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
