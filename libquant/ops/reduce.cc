// Reductions over axes. Floats are summed in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/convert_number.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/reduce_rows.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

// The axes kept and the axes folded, in that order: a transposed copy makes every reduction one over rows.
struct ReducePlan {
  Dims out;            // result's dims
  int64_t rows = 1;    // elements of the result
  int64_t length = 1;  // elements folded into each
  Dims moved;          // kept dims, then folded dims
  std::vector<int64_t> strides;
  bool already_rows = true;  // folded axes are the last ones
  bool nothing = false;      // noop_with_empty_axes
};

StatusOr<ReducePlan> PlanReduce(const KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(auto given, IntsFrom(context, 1, "axes"));
  std::vector<int64_t> axes = given ? *given : std::vector<int64_t>();
  ReducePlan plan;
  if (axes.empty()) {
    plan.nothing = context.attributes().Int("noop_with_empty_axes", 0) != 0;
    for (int64_t i = 0; i < x.rank() && !plan.nothing; ++i) axes.push_back(i);
  }
  ASSIGN_OR_RETURN(axes, NormalizeAxes(axes, x.rank()));
  const bool keep = context.attributes().Int("keepdims", 1) != 0;
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  Dims folded;
  std::vector<int64_t> folded_strides;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t dim = x.dims()[at];
    if (std::binary_search(axes.begin(), axes.end(), i)) {
      plan.length *= dim;
      folded.push_back(dim);
      folded_strides.push_back(strides[at]);
      if (keep) plan.out.push_back(1);
    } else {
      if (!folded.empty() && dim != 1) plan.already_rows = false;
      plan.rows *= dim;
      plan.out.push_back(dim);
      plan.moved.push_back(dim);
      plan.strides.push_back(strides[at]);
    }
  }
  plan.moved.insert(plan.moved.end(), folded.begin(), folded.end());
  plan.strides.insert(plan.strides.end(), folded_strides.begin(), folded_strides.end());
  return plan;
}

// out[r] = f(row r, length). f is called with the elements of one result; those are bool too when kBools.
template <bool kBools = false, typename F>
Status ReduceRows(KernelContext& context, F f) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const ReducePlan plan, PlanReduce(context));
  const auto reduce = [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), plan.out));
    const T* rows = x.data<T>().data();
    std::shared_ptr<Buffer> copy;
    if (!plan.already_rows && x.size() > 0) {
      copy = context.Scratch(x.byte_size());
      StridedCopy(x.bytes().data(), 0, plan.moved, plan.strides, sizeof(T), copy->data());
      rows = reinterpret_cast<const T*>(copy->data());
    }
    T* to = out->template mutable_data<T>().data();
    const int64_t length = plan.nothing ? 1 : plan.length;
    const int64_t count = plan.nothing ? x.size() : plan.rows;
    const int64_t group = std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(1, length));
    ParallelFor((count + group - 1) / group, [&](int64_t job) {
      for (int64_t r = job * group; r < std::min(count, (job + 1) * group); ++r)
        to[r] = ConvertNumber<T>(f(rows + r * length, length));
    });
    return OkStatus();
  };
  if constexpr (kBools) {
    if (x.dtype() == DType::kBool) return reduce(false);
  }
  return WithNumber(x.dtype(), reduce);
}

// 64 bits of an integer's signedness.
template <typename T>
using Long = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;

// Sums of integers wrap, and so do the squares in them: f takes a Long, and what it makes is summed without a sign.
// Sums of floats are made in double.
template <typename T, typename F>
auto SumRow(const T* row, int64_t length, F f) {
  if constexpr (std::is_integral_v<T>) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += static_cast<uint64_t>(f(static_cast<Long<T>>(row[i])));
    return static_cast<T>(sum);
  } else {
    return SumOf(row, length, f);
  }
}

// Of what a sum is only a step towards: integers don't wrap on the way.
template <typename T, typename F>
double WideSumRow(const T* row, int64_t length, F f) {
  if constexpr (std::is_integral_v<T>) {
    return SumOf(row, length, f);
  } else {
    return SumRow(row, length, f);
  }
}

const auto kSame = [](auto v) { return v; };
const auto kSquare = [](auto v) {
  if constexpr (std::is_integral_v<decltype(v)>) {
    return static_cast<uint64_t>(v) * static_cast<uint64_t>(v);
  } else {
    return v * v;
  }
};
const auto kAbs = [](auto v) {
  if constexpr (std::is_integral_v<decltype(v)>) {
    return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  } else {
    return v < 0 ? -v : v;
  }
};

Status EvalReduceSum(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) { return SumRow(row, n, kSame); });
}
Status EvalReduceMean(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) {
    using T = std::remove_cvref_t<decltype(*row)>;
    if constexpr (std::is_integral_v<T>) {
      __int128 sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += row[i];
      return n == 0 ? T{0} : static_cast<T>(sum / n);
    } else {
      return SumRow(row, n, kSame) / static_cast<double>(n);
    }
  });
}
Status EvalReduceSumSquare(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) { return SumRow(row, n, kSquare); });
}
Status EvalReduceL1(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) { return SumRow(row, n, kAbs); });
}
Status EvalReduceL2(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) { return std::sqrt(WideSumRow(row, n, kSquare)); });
}
Status EvalReduceLogSum(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) { return std::log(WideSumRow(row, n, kSame)); });
}
Status EvalReduceLogSumExp(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) {
    double top = -std::numeric_limits<double>::infinity();
    bool has_nan = false;
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<double>(row[i]);
      has_nan = has_nan || v != v;
      top = std::max(top, v);
    }
    if (has_nan) return std::numeric_limits<double>::quiet_NaN();
    if (!std::isfinite(top)) return top;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(row[i]) - top);
    return std::log(sum) + top;
  });
}
Status EvalReduceProd(KernelContext& context) {
  return ReduceRows(context, [](const auto* row, int64_t n) {
    using T = std::remove_cvref_t<decltype(*row)>;
    if constexpr (std::is_integral_v<T>) {
      uint64_t product = 1;
      for (int64_t i = 0; i < n; ++i) product *= static_cast<uint64_t>(row[i]);
      return static_cast<T>(product);
    } else {
      double product = 1;
      for (int64_t i = 0; i < n; ++i) product *= static_cast<double>(row[i]);
      return product;
    }
  });
}

// The extreme of a row; an empty one gives the identity of the operation.
template <bool kMax>
Status EvalExtreme(KernelContext& context) {
  return ReduceRows<true>(context, [](const auto* row, int64_t n) {
    using T = std::remove_cvref_t<decltype(*row)>;
    using W = typename Wide<T>::type;
    W best = kMax ? std::numeric_limits<W>::lowest() : std::numeric_limits<W>::max();
    if constexpr (std::is_floating_point_v<W>)
      best = kMax ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::infinity();
    for (int64_t i = 0; i < n; ++i) {
      const W v = static_cast<W>(row[i]);
      if constexpr (std::is_floating_point_v<W>) {
        if (std::isnan(v)) return v;
      }
      best = kMax ? std::max(best, v) : std::min(best, v);
    }
    return best;
  });
}

OpDef Reduction(std::string_view name, std::vector<int64_t> since, Status (*eval)(KernelContext&), Role role,
                std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .eval = eval,
          .role = role,
          .exactness = Exactness::kRounding,
          .summary = summary};
}

}  // namespace

#define NIBBLE_REDUCTION(op, eval_fn, role_value, text, ...)                           \
  const OpDef& op##Op() {                                                              \
    static const OpDef def = Reduction(#op, {__VA_ARGS__}, eval_fn, role_value, text); \
    return def;                                                                        \
  }
NIBBLE_REDUCTION(ReduceSum, EvalReduceSum, FloatOnly{}, "Sum over axes", 1, 11, 13)
NIBBLE_REDUCTION(ReduceMean, EvalReduceMean, Requantize{}, "Mean over axes", 1, 11, 13, 18)
NIBBLE_REDUCTION(ReduceSumSquare, EvalReduceSumSquare, FloatOnly{}, "Sum of squares over axes", 1, 11, 13, 18)
NIBBLE_REDUCTION(ReduceL1, EvalReduceL1, FloatOnly{}, "Sum of magnitudes over axes", 1, 11, 13, 18)
NIBBLE_REDUCTION(ReduceL2, EvalReduceL2, FloatOnly{}, "Root of the sum of squares over axes", 1, 11, 13, 18)
NIBBLE_REDUCTION(ReduceLogSum, EvalReduceLogSum, FloatOnly{}, "Logarithm of the sum over axes", 1, 11, 13, 18)
NIBBLE_REDUCTION(ReduceLogSumExp, EvalReduceLogSumExp, FloatOnly{}, "Logarithm of the sum of exponentials", 1, 11, 13,
                 18)
NIBBLE_REDUCTION(ReduceProd, EvalReduceProd, FloatOnly{}, "Product over axes", 1, 11, 13, 18)
NIBBLE_REDUCTION(ReduceMax, EvalExtreme<true>, OrderPreserving{}, "Largest over axes", 1, 11, 12, 13, 18, 20)
NIBBLE_REDUCTION(ReduceMin, EvalExtreme<false>, OrderPreserving{}, "Smallest over axes", 1, 11, 12, 13, 18, 20)
#undef NIBBLE_REDUCTION

}  // namespace quant
