// How far one answer is from another, streamed over samples: bounded state, sums in double in index order.
//
//   relative RMS = rms(got - ref) / rms(ref)      SQNR = 10 log10(sum ref^2 / sum (got - ref)^2) dB
//   cosine = <ref, got> / (|ref| |got|)           top-1 agreement: argmax over the last axis, row by row
//
// Elements that are equal, infinities included, or NaN in both, agree. Where exactly one side is not finite, or both
// are and differ, the element counts in non_finite(), the errors become infinite, SQNR -infinity and cosine NaN: no
// gate lets that pass.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

class OutputMetrics {
 public:
  // Any real dtypes; DataError when dims differ. Rows of the last axis count for top-1 when it has 2 or more
  // entries and the tensor is float of rank >= 2.
  Status Add(const Tensor& reference, const Tensor& got);

  int64_t elements() const { return elements_; }
  double max_abs() const { return max_abs_; }
  double mean_abs() const;
  double rmse() const;
  // 0 when both are all zero; infinity when only the reference is.
  double relative_rms() const;
  // Exactly 1 when equal, all zeros included; 0 when one side is all zero.
  double cosine() const;
  // Infinity when equal, -infinity when only the reference is all zero.
  double sqnr_db() const;
  std::optional<double> top1() const;
  int64_t non_finite() const { return non_finite_; }

 private:
  void AddElement(double reference, double got);
  void AddRow(const double* reference, const double* got, int64_t count);

  int64_t elements_ = 0;
  int64_t non_finite_ = 0;
  double max_abs_ = 0;
  double sum_abs_ = 0;
  double sum_square_error_ = 0;
  double sum_square_reference_ = 0;
  double sum_square_got_ = 0;
  double dot_ = 0;
  int64_t rows_ = 0;
  int64_t rows_agreeing_ = 0;
};

// Predicted class of each row of the last axis (first of equals; NaN is never largest).
StatusOr<std::vector<int64_t>> Argmax(const Tensor& scores);

}  // namespace quant
