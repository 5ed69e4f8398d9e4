// Softmax and LogSoftmax, by the formulas of softmax_row.h. Before opset 13 the input is taken as a matrix, split at
// `axis` (default 1), and its rows are normalised; from 13 on one axis is (default -1).
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/exp_rows.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/softmax_axis.h"
#include "libquant/ops/softmax_row.h"

namespace quant {

StatusOr<AxisSplit> SoftmaxAxes(const KernelContext& context) {
  const Dims& dims = context.in(0).dims();
  const auto rank = static_cast<int64_t>(dims.size());
  const bool one_axis = context.version() >= 13;
  int64_t axis = context.attributes().Int("axis", one_axis ? -1 : 1);
  const int64_t last = one_axis && rank > 0 ? rank - 1 : rank;
  if (axis < -rank || axis > last) return DataError("axis {} of an input of rank {}", axis, rank);
  if (axis < 0) axis += rank;
  AxisSplit plan;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t dim = dims[static_cast<size_t>(i)];
    if (i < axis) {
      plan.outer *= dim;
    } else if (i == axis || !one_axis) {
      plan.length *= dim;
    } else {
      plan.inner *= dim;
    }
  }
  return plan;
}

namespace {

// Many short rows: the exponentials of all of them in one run.
template <typename T>
void SoftmaxShortRows(const T* x, int64_t rows, int64_t length, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const T largest = LargestOf(x + r * length, length);
    for (int64_t i = r * length; i < (r + 1) * length; ++i) y[i] = x[i] - largest;
  }
  ExpRow(y, T{0}, rows * length, y);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = r * length; i < (r + 1) * length; ++i) sum += y[i];
    const T factor = static_cast<T>(1 / sum);
    for (int64_t i = r * length; i < (r + 1) * length; ++i) y[i] *= factor;
  }
}

// Columns [0, count) of a [length, inner] matrix, each normalised; `largest` and `sums` hold `count`.
template <typename T, bool kLog>
void SoftmaxColumns(const AxisSplit& plan, const T* x, int64_t count, T* largest, double* sums, T* y) {
  std::copy_n(x, count, largest);
  std::fill_n(sums, count, 0.0);
  for (int64_t r = 1; r < plan.length; ++r) {
    const T* row = x + r * plan.inner;
    for (int64_t j = 0; j < count; ++j) largest[j] = row[j] > largest[j] ? row[j] : largest[j];
  }
  for (int64_t r = 0; r < plan.length; ++r) {
    T* out = y + r * plan.inner;
    for (int64_t j = 0; j < count; ++j) out[j] = x[r * plan.inner + j] - largest[j];
    if (kLog) continue;
    ExpRow(out, T{0}, count, out);
    for (int64_t j = 0; j < count; ++j) sums[j] += out[j];
  }
  T* scratch = largest;  // its work is done
  for (int64_t r = 0; kLog && r < plan.length; ++r) {
    ExpRow(y + r * plan.inner, T{0}, count, scratch);
    for (int64_t j = 0; j < count; ++j) sums[j] += scratch[j];
  }
  for (int64_t j = 0; j < count; ++j) scratch[j] = static_cast<T>(kLog ? std::log(sums[j]) : 1 / sums[j]);
  for (int64_t r = 0; r < plan.length; ++r) {
    T* out = y + r * plan.inner;
    for (int64_t j = 0; j < count; ++j) out[j] = kLog ? out[j] - scratch[j] : out[j] * scratch[j];
  }
}

constexpr int64_t kColumns = 256;
constexpr int64_t kShortRow = 16;
constexpr int64_t kRowElements = 16384;  // of a piece of work

template <typename T, bool kLog>
void Normalise(const KernelContext& context, const AxisSplit& plan, const T* x, T* y) {
  if (plan.length == 0 || plan.inner == 0) return;
  if (plan.inner == 1) {
    const int64_t rows = std::max<int64_t>(1, kRowElements / plan.length);
    return ParallelFor(CeilDiv(plan.outer, rows), [&](int64_t piece) {
      const int64_t end = std::min((piece + 1) * rows, plan.outer);
      if (!kLog && plan.length <= kShortRow) {
        const int64_t at = piece * rows * plan.length;
        return SoftmaxShortRows(x + at, end - piece * rows, plan.length, y + at);
      }
      for (int64_t r = piece * rows; r < end; ++r) {
        SoftmaxRow<T, kLog>(x + r * plan.length, plan.length, y + r * plan.length);
      }
    });
  }
  const int64_t pieces = CeilDiv(plan.inner, kColumns);
  ScratchPool scratch(context, kColumns * static_cast<int64_t>(sizeof(T) + sizeof(double)));
  ParallelFor(plan.outer * pieces, [&](int64_t item) {
    auto lease = scratch.Borrow();
    double* sums = lease.as<double>();
    const int64_t begin = item % pieces * kColumns;
    const int64_t at = item / pieces * plan.length * plan.inner + begin;
    SoftmaxColumns<T, kLog>(plan, x + at, std::min(kColumns, plan.inner - begin), reinterpret_cast<T*>(sums + kColumns),
                            sums, y + at);
  });
}

template <bool kLog>
Status EvalSoftmax(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const AxisSplit plan, SoftmaxAxes(context));
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    Normalise<T, kLog>(context, plan, xs.data(), y.data());
    return y.Finish();
  });
}

}  // namespace

const OpDef& SoftmaxOp() {
  static const OpDef def = {
      .name = "Softmax",
      .since = {1, 11, 13},
      .min_inputs = 1,
      .eval = EvalSoftmax<false>,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .summary = "exp(x) over its sum along an axis",
  };
  return def;
}

const OpDef& LogSoftmaxOp() {
  static const OpDef def = {
      .name = "LogSoftmax",
      .since = {1, 11, 13},
      .min_inputs = 1,
      .eval = EvalSoftmax<true>,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .summary = "Logarithm of Softmax",
  };
  return def;
}

}  // namespace quant
