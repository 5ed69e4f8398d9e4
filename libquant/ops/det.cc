// Det: determinants of square matrices [*, n, n], by elimination with row exchanges in float64.
#include <algorithm>
#include <cmath>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

// Uses up the matrix. That of an empty matrix is 1.
double Determinant(std::vector<double>& matrix, int64_t n) {
  double product = 1;
  const auto row = [&](int64_t r) { return matrix.data() + r * n; };
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t r = k + 1; r < n; ++r) {
      if (std::abs(row(r)[k]) > std::abs(row(pivot)[k])) pivot = r;
    }
    if (pivot != k) {
      std::swap_ranges(row(k), row(k) + n, row(pivot));
      product = -product;
    }
    const double top = row(k)[k];
    product *= top;
    if (top == 0) return 0;
    for (int64_t r = k + 1; r < n; ++r) {
      const double factor = row(r)[k] / top;
      for (int64_t c = k; c < n; ++c) row(r)[c] -= factor * row(k)[c];
    }
  }
  return product;
}

Status EvalDet(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 2 || x.dims().back() != x.dims()[x.dims().size() - 2]) {
    return DataError("{} holds no square matrices", Describe(x));
  }
  const int64_t n = x.dims().back();
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2)));
    ParallelFor(out.size(), [&](int64_t i) {
      std::vector<double> matrix(in.data() + i * n * n, in.data() + (i + 1) * n * n);
      out.data()[i] = static_cast<T>(Determinant(matrix, n));
    });
    return out.Finish();
  });
}

}  // namespace

const OpDef& DetOp() {
  static const OpDef def = {.name = "Det",
                            .since = {11, 22},
                            .eval = EvalDet,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Determinants of square matrices"};
  return def;
}

}  // namespace quant
