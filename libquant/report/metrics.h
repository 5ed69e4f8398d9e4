// How far one answer is from another, streamed over samples: bounded state, sums in double in an order that does not
// depend on the number of threads.
//
//   relative RMS = rms(got - ref) / rms(ref)      SQNR = 10 log10(sum ref^2 / sum (got - ref)^2) dB
//   cosine = <ref, got> / (|ref| |got|)           PSNR = 20 log10((max ref - min ref) / rmse) dB
//   ulp: numbers of the reference's type that lie between the two
//   needed rtol: the least r with |got - ref| <= kAtol + r |ref| everywhere; needed atol: the least a with
//   |got - ref| <= a + kRtol |ref|
//   Rows of the last axis, where that is a class axis: see row_metrics.h.
//
// Elements that are equal, infinities included, or NaN in both, agree. Where exactly one side is not finite, or both
// are and differ, the element counts in non_finite(), the errors become infinite, SQNR -infinity and cosine NaN: no
// gate lets that pass.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"
#include "libquant/report/row_metrics.h"

namespace quant {

class OutputMetrics {
 public:
  static constexpr double kAtol = 1e-5;
  static constexpr double kRtol = 1e-3;

  // What is read a piece at a time: `read` fills the span with elements from `begin` on, from any thread.
  struct Elements {
    DType dtype = DType::kUndefined;
    Dims dims;
    std::function<Status(int64_t begin, std::span<double> out)> read;
  };

  // Any real dtypes; DataError when dims differ. Rows of the last axis count when it has 2 or more entries and the
  // tensor is float of rank >= 2.
  Status Add(const Tensor& reference, const Tensor& got);
  // The same of a reference that lies elsewhere.
  Status Add(const Elements& reference, const Tensor& got);
  // As if what `other` saw had been added here.
  void Merge(const OutputMetrics& other);

  int64_t elements() const { return sums_.elements; }
  double max_abs() const { return sums_.max_abs; }
  double mean_abs() const;
  double rmse() const;
  // 0 when both are all zero; infinity when only the reference is.
  double relative_rms() const;
  // Exactly 1 when equal, all zeros included; 0 when one side is all zero.
  double cosine() const;
  // Infinity when equal, -infinity when only the reference is all zero.
  double sqnr_db() const;
  // Infinity when equal, -infinity when the reference is one value throughout and the other is not.
  double psnr_db() const;
  // Of float references; saturates.
  std::optional<double> max_ulp() const;
  double needed_rtol() const { return sums_.non_finite > 0 ? kInfinity : sums_.needed_rtol; }
  double needed_atol() const { return sums_.non_finite > 0 ? kInfinity : sums_.needed_atol; }
  // Part of the integers of 16 bits and less that are at an end of their type's range; nullopt for other types.
  std::optional<double> saturated() const;
  std::optional<double> top1() const { return rows_.top1(); }
  std::optional<double> top5() const { return rows_.top5(); }
  std::optional<double> kl() const { return rows_.kl(); }
  int64_t non_finite() const { return sums_.non_finite; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Sums {
    int64_t elements = 0;
    int64_t non_finite = 0;
    int64_t saturated = 0;
    double max_abs = 0;
    double max_ulp = 0;
    double needed_rtol = 0;
    double needed_atol = 0;
    double sum_abs = 0;
    double square_error = 0;
    double square_reference = 0;
    double square_got = 0;
    double dot = 0;
    double low = kInfinity;  // of the reference
    double high = -kInfinity;
    void Merge(const Sums& other);
  };
  // What a piece of both tensors is read into.
  struct Piece;
  static void AddPiece(const Piece& piece, Sums& sums, RowMetrics& rows);

  Sums sums_;
  RowMetrics rows_;
  bool is_float_ = false;
  bool may_saturate_ = false;
};

// Predicted class of each row of the last axis (first of equals; NaN is never largest).
StatusOr<std::vector<int64_t>> Argmax(const Tensor& scores);

}  // namespace quant
