// Minimum, maximum and mean of a tensor's elements, gathered over samples.
#pragma once

#include <cstdint>
#include <limits>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

struct TensorStats {
  int64_t elements = 0;
  int64_t non_finite = 0;  // left out of the rest
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  // Strings and complex numbers only count as elements. Of a list, each item's.
  void Add(const Tensor& tensor);
  bool any() const { return min <= max; }
  double mean() const { return any() ? sum / static_cast<double>(elements - non_finite) : 0; }
};

// How far answers are from expected ones: |got - expected| <= atol + rtol * |expected|, element by element.
class ToleranceCheck {
 public:
  ToleranceCheck(double rtol, double atol) : rtol_(rtol), atol_(atol) {}
  // GateError when dtypes or dims differ. Lists item by item.
  Status Add(const Tensor& expected, const Tensor& got);
  int64_t elements() const { return elements_; }
  int64_t beyond() const { return beyond_; }
  double max_abs() const { return max_abs_; }
  // The rtol that would have been enough with this atol; infinity when none.
  double needed_rtol() const { return needed_rtol_; }

 private:
  double rtol_;
  double atol_;
  int64_t elements_ = 0;
  int64_t beyond_ = 0;
  double max_abs_ = 0;
  double needed_rtol_ = 0;
};

}  // namespace quant
