#include "libquant/report/task_metrics.h"

#include <algorithm>

#include "libquant/report/as_double.h"

namespace quant {
namespace {

double Part(int64_t some, int64_t all) { return all == 0 ? 0 : static_cast<double>(some) / static_cast<double>(all); }

}  // namespace

void ClassCounts::Add(int64_t label, int64_t answer) {
  ++rows_;
  ++classes_[label].labels;
  ++classes_[answer].answers;
  if (label != answer) return;
  ++right_;
  ++classes_[label].right;
}

double ClassCounts::Counts::precision() const { return Part(right, answers); }
double ClassCounts::Counts::recall() const { return Part(right, labels); }
double ClassCounts::Counts::f1() const { return Part(2 * right, labels + answers); }

double ClassCounts::Mean(double (Counts::*of)() const) const {
  double sum = 0;
  for (const auto& [label, counts] : classes_) sum += (counts.*of)();
  return classes_.empty() ? 0 : sum / static_cast<double>(classes_.size());
}

double ClassCounts::accuracy() const { return Part(right_, rows_); }
double ClassCounts::macro_precision() const { return Mean(&Counts::precision); }
double ClassCounts::macro_recall() const { return Mean(&Counts::recall); }
double ClassCounts::macro_f1() const { return Mean(&Counts::f1); }

Status SquaredError::Add(std::span<const double> target, const Tensor& answer) {
  if (static_cast<int64_t>(target.size()) != answer.size()) {
    return DataError("{} numbers are right for a sample whose answer is {}", target.size(), Describe(answer));
  }
  std::vector<double> got(target.size());
  RETURN_IF_ERROR(ReadAsDouble(answer, 0, got));
  for (size_t i = 0; i < got.size(); ++i) sum_ += (got[i] - target[i]) * (got[i] - target[i]);
  elements_ += answer.size();
  return OkStatus();
}

double SquaredError::mean() const { return elements_ == 0 ? 0 : sum_ / static_cast<double>(elements_); }

}  // namespace quant
