#include "libquant/report/metrics.h"

#include <algorithm>
#include <cmath>

#include "libquant/report/as_double.h"

namespace quant {
namespace {

constexpr int64_t kChunk = 4096;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

size_t ArgmaxOf(const double* row, int64_t count) {
  size_t best = 0;
  for (size_t i = 1; i < static_cast<size_t>(count); ++i) {
    if (row[i] > row[best] || (std::isnan(row[best]) && !std::isnan(row[i]))) best = i;
  }
  return best;
}

bool HasClassAxis(const Tensor& t) { return InfoOf(t.dtype()).is_float && t.rank() >= 2 && t.dims().back() >= 2; }

}  // namespace

void OutputMetrics::AddElement(double reference, double got) {
  if (!std::isfinite(reference) || !std::isfinite(got)) {
    const bool agree = reference == got || (std::isnan(reference) && std::isnan(got));
    if (agree) return;
    ++non_finite_;
    max_abs_ = kInfinity;
    return;
  }
  const double error = got - reference;
  max_abs_ = std::max(max_abs_, std::abs(error));
  sum_abs_ += std::abs(error);
  sum_square_error_ += error * error;
  sum_square_reference_ += reference * reference;
  sum_square_got_ += got * got;
  dot_ += reference * got;
}

void OutputMetrics::AddRow(const double* reference, const double* got, int64_t count) {
  ++rows_;
  if (ArgmaxOf(reference, count) == ArgmaxOf(got, count)) ++rows_agreeing_;
}

Status OutputMetrics::Add(const Tensor& reference, const Tensor& got) {
  if (reference.dims() != got.dims()) {
    return DataError("dims differ: {} in the reference, {} in the other", Describe(reference), Describe(got));
  }
  const bool classes = HasClassAxis(reference) && HasClassAxis(got);
  // Whole rows at a time where rows count.
  const int64_t step = classes ? reference.dims().back() : kChunk;
  std::vector<double> ours(static_cast<size_t>(std::min(step, reference.size())));
  std::vector<double> theirs(ours.size());
  for (int64_t begin = 0; begin < reference.size(); begin += step) {
    const auto count = static_cast<size_t>(std::min(step, reference.size() - begin));
    RETURN_IF_ERROR(ReadAsDouble(reference, begin, std::span(ours).first(count)));
    RETURN_IF_ERROR(ReadAsDouble(got, begin, std::span(theirs).first(count)));
    for (size_t i = 0; i < count; ++i) AddElement(ours[i], theirs[i]);
    if (classes) AddRow(ours.data(), theirs.data(), step);
  }
  elements_ += reference.size();
  return OkStatus();
}

double OutputMetrics::mean_abs() const {
  if (non_finite_ > 0) return kInfinity;
  return elements_ == 0 ? 0 : sum_abs_ / static_cast<double>(elements_);
}

double OutputMetrics::rmse() const {
  if (non_finite_ > 0) return kInfinity;
  return elements_ == 0 ? 0 : std::sqrt(sum_square_error_ / static_cast<double>(elements_));
}

double OutputMetrics::relative_rms() const {
  if (non_finite_ > 0) return kInfinity;
  if (sum_square_error_ == 0) return 0;
  return sum_square_reference_ == 0 ? kInfinity : std::sqrt(sum_square_error_ / sum_square_reference_);
}

double OutputMetrics::cosine() const {
  if (non_finite_ > 0) return std::numeric_limits<double>::quiet_NaN();
  if (sum_square_error_ == 0) return 1;
  if (sum_square_reference_ == 0 || sum_square_got_ == 0) return 0;
  const double cosine = dot_ / (std::sqrt(sum_square_reference_) * std::sqrt(sum_square_got_));
  return std::clamp(cosine, -1.0, 1.0);
}

double OutputMetrics::sqnr_db() const {
  if (non_finite_ > 0) return -kInfinity;
  if (sum_square_error_ == 0) return kInfinity;
  return 10 * std::log10(sum_square_reference_ / sum_square_error_);
}

std::optional<double> OutputMetrics::top1() const {
  if (rows_ == 0) return std::nullopt;
  return static_cast<double>(rows_agreeing_) / static_cast<double>(rows_);
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
    out.push_back(static_cast<int64_t>(ArgmaxOf(row.data(), classes)));
  }
  return out;
}

}  // namespace quant
