#include "libquant/report/row_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace quant {
namespace {

constexpr size_t kFive = 5;
constexpr double kLeast = 1e-12;
constexpr double kSumTolerance = 1e-3;

bool IsDistribution(std::span<const double> row) {
  double sum = 0;
  for (const double v : row) {
    if (!(v >= 0)) return false;
    sum += v;
  }
  return std::abs(sum - 1) <= kSumTolerance;
}

std::vector<double> Softmax(std::span<const double> row) {
  std::vector<double> out(row.size());
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += out[i] = std::exp(row[i] - largest);
  for (double& v : out) v /= sum;
  return out;
}

double Divergence(std::span<const double> p, std::span<const double> q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) sum += p[i] * std::log(p[i] / std::max(q[i], kLeast));
  }
  return std::max(sum, 0.0);  // of distributions it is never below, but for rounding
}

// Rows that say the same where they are not finite have no divergence there to speak of.
double DivergenceOfRows(std::span<const double> reference, std::span<const double> got) {
  const auto finite = [](std::span<const double> row) {
    return std::all_of(row.begin(), row.end(), [](double v) { return std::isfinite(v); });
  };
  if (!finite(reference) || !finite(got)) {
    const bool same = std::equal(reference.begin(), reference.end(), got.begin(),
                                 [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  if (IsDistribution(reference)) return Divergence(reference, got);
  return Divergence(Softmax(reference), Softmax(got));
}

bool IsAmongLargest(std::span<const double> row, size_t place, size_t count) {
  size_t before = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    before += row[i] > row[place] || (row[i] == row[place] && i < place) || (std::isnan(row[place]) && i < place);
  }
  return before < count;
}

std::optional<double> Part(int64_t some, int64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(some) / static_cast<double>(all);
}

}  // namespace

size_t PlaceOfLargest(std::span<const double> row) {
  size_t best = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    if (row[i] > row[best] || (std::isnan(row[best]) && !std::isnan(row[i]))) best = i;
  }
  return best;
}

void RowMetrics::Add(std::span<const double> reference, std::span<const double> got) {
  const size_t wanted = PlaceOfLargest(reference);
  ++rows_;
  agreeing_ += wanted == PlaceOfLargest(got);
  if (reference.size() > kFive) {
    ++wide_rows_;
    among_five_ += IsAmongLargest(got, wanted, kFive);
  }
  divergence_ += DivergenceOfRows(reference, got);
}

void RowMetrics::Merge(const RowMetrics& other) {
  rows_ += other.rows_;
  agreeing_ += other.agreeing_;
  wide_rows_ += other.wide_rows_;
  among_five_ += other.among_five_;
  divergence_ += other.divergence_;
}

std::optional<double> RowMetrics::top1() const { return Part(agreeing_, rows_); }
std::optional<double> RowMetrics::top5() const { return Part(among_five_, wide_rows_); }
std::optional<double> RowMetrics::kl() const {
  if (rows_ == 0) return std::nullopt;
  return divergence_ / static_cast<double>(rows_);
}

}  // namespace quant
