// How far rows of classes are apart: which class each prefers, and how much of their probability moved.
//
//   top-1: the parts of rows whose largest element is at the same place
//   top-5: those whose reference's largest is among the candidate's five largest (rows of more than 5)
//   KL divergence: mean over rows of sum p ln(p / q), in nats. p and q are the rows themselves where the reference's is
//   a distribution (no element negative, their sum 1 within 1e-3), else their softmax; q is at least 1e-12.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quant {

class RowMetrics {
 public:
  // Rows of the same length, at least 2.
  void Add(std::span<const double> reference, std::span<const double> got);
  void Merge(const RowMetrics& other);

  std::optional<double> top1() const;
  std::optional<double> top5() const;
  // Infinity where an element is not finite in one row alone.
  std::optional<double> kl() const;

 private:
  int64_t rows_ = 0;
  int64_t agreeing_ = 0;
  int64_t wide_rows_ = 0;  // of more than 5
  int64_t among_five_ = 0;
  double divergence_ = 0;
};

// Place of the largest element: the first of equals; NaN is never largest.
size_t PlaceOfLargest(std::span<const double> row);

}  // namespace quant
