// MatMul: NumPy's matmul of two tensors, with broadcast batch axes.
#include "libquant/ops/matmul.h"

#include <algorithm>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm.h"

namespace quant {
namespace {

// For each index of the broadcast batch, the index into an operand's own batch.
std::vector<int64_t> BatchMap(const Dims& batch, const Dims& own, int64_t count) {
  std::vector<int64_t> map(static_cast<size_t>(count), 0);
  int64_t block = 1;  // broadcast elements per step of this axis
  int64_t stride = 1;
  for (size_t back = 1; back <= own.size(); ++back) {
    const int64_t dim = batch[batch.size() - back], own_dim = own[own.size() - back];
    if (own_dim > 1) {
      for (int64_t i = 0; i < count; ++i) map[static_cast<size_t>(i)] += i / block % dim * stride;
      stride *= own_dim;
    }
    block *= dim;
  }
  return map;
}

StatusOr<Dims> BroadcastBatch(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t back = 1; back <= out.size(); ++back) {
    const int64_t x = back <= a.size() ? a[a.size() - back] : 1;
    const int64_t y = back <= b.size() ? b[b.size() - back] : 1;
    if (x != y && x != 1 && y != 1) return DataError("batches {} and {} can't be broadcast", ToString(a), ToString(b));
    out[out.size() - back] = x == 1 ? y : x;
  }
  return out;
}

// Wraps around like the type it is stored in.
template <typename T>
void IntegerProduct(const MatMulPlan& p, const T* a, const T* b, T* y) {
  using U = std::make_unsigned_t<T>;
  ParallelFor(p.count * p.m, [&](int64_t item) {
    const auto batch = static_cast<size_t>(item / p.m);
    const T* row = a + (p.a_matrix[batch] * p.m + item % p.m) * p.k;
    const T* matrix = b + p.b_matrix[batch] * p.k * p.n;
    U* out = reinterpret_cast<U*>(y + item * p.n);
    std::fill_n(out, p.n, U{0});
    for (int64_t k = 0; k < p.k; ++k) {
      const U x = static_cast<U>(row[k]);
      for (int64_t j = 0; j < p.n; ++j) out[j] += x * static_cast<U>(matrix[k * p.n + j]);
    }
  });
}

template <typename T>
Status EvalInteger(KernelContext& context, const MatMulPlan& plan) {
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DTypeOf<T>(), plan.out_dims));
  IntegerProduct(plan, context.in(0).data<T>().data(), context.in(1).data<T>().data(), y->mutable_data<T>().data());
  return OkStatus();
}

template <typename T>
Status EvalFloat(KernelContext& context, const MatMulPlan& plan) {
  const Tensor &a = context.in(0), &b = context.in(1);
  ASSIGN_OR_RETURN(const auto as, FloatInput<T>::Of(context, &a));
  ASSIGN_OR_RETURN(const auto bs, FloatInput<T>::Of(context, &b));
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, a.dtype(), plan.out_dims));
  const auto operands = [&](int64_t i) {
    const auto batch = static_cast<size_t>(i);
    return GemmOperands<T>{{as.data() + plan.a_matrix[batch] * plan.m * plan.k, plan.k},
                           {bs.data() + plan.b_matrix[batch] * plan.k * plan.n, plan.n},
                           y.data() + i * plan.m * plan.n,
                           plan.n};
  };
  std::function<void(T*, int64_t)> finish;
  if constexpr (std::is_same_v<T, float>) {
    if (Tail tail = a.dtype() == DType::kFloat ? context.TailFor(plan.out_dims) : Tail()) {
      finish = [tail = std::move(tail), base = y.data()](float* run, int64_t length) { tail(run, run - base, length); };
    }
  }
  GemmBatch<T>({plan.m, plan.n, plan.k}, plan.count, operands, finish);
  return y.Finish();
}

Status EvalMatMul(KernelContext& context) {
  RETURN_IF_ERROR(SameTypes(context, {1}));
  ASSIGN_OR_RETURN(const MatMulPlan plan, PlanMatMul(context.in(0).dims(), context.in(1).dims()));
  switch (context.in(0).dtype()) {
    case DType::kInt32:
      return EvalInteger<int32_t>(context, plan);
    case DType::kUint32:
      return EvalInteger<uint32_t>(context, plan);
    case DType::kInt64:
      return EvalInteger<int64_t>(context, plan);
    case DType::kUint64:
      return EvalInteger<uint64_t>(context, plan);
    default:
      return WithComputeType(context.in(0).dtype(),
                             [&](auto zero) { return EvalFloat<decltype(zero)>(context, plan); });
  }
}

}  // namespace

StatusOr<MatMulPlan> PlanMatMul(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) return DataError("a scalar can't be multiplied as a matrix");
  MatMulPlan plan;
  plan.k = a.back();
  if (a.size() > 1) plan.m = a[a.size() - 2];
  const int64_t rows = b.size() > 1 ? b[b.size() - 2] : b[0];
  if (b.size() > 1) plan.n = b.back();
  if (rows != plan.k) return DataError("{} and {} can't be multiplied", ToString(a), ToString(b));
  const Dims a_batch(a.begin(), a.size() > 2 ? a.end() - 2 : a.begin());
  const Dims b_batch(b.begin(), b.size() > 2 ? b.end() - 2 : b.begin());
  ASSIGN_OR_RETURN(const Dims batch, BroadcastBatch(a_batch, b_batch));
  plan.out_dims = batch;
  if (a.size() > 1) plan.out_dims.push_back(plan.m);
  if (b.size() > 1) plan.out_dims.push_back(plan.n);
  const auto count = CheckedProduct(batch);
  if (!CheckedProduct(plan.out_dims) || !count)
    return DataError("{} and {} make too large a product", ToString(a), ToString(b));
  if (CheckedProduct(b_batch) == 1 && *count == CheckedProduct(a_batch)) {
    plan.m *= *count;
    plan.a_matrix = plan.b_matrix = {0};
    return plan;
  }
  plan.count = *CheckedProduct(plan.out_dims) == 0 ? 0 : *count;
  if (plan.count == 0) return plan;
  plan.a_matrix = BatchMap(batch, a_batch, *count);
  plan.b_matrix = BatchMap(batch, b_batch, *count);
  return plan;
}

const OpDef& MatMulOp() {
  static const OpDef def = {
      .name = "MatMul",
      .since = {1, 9, 13},
      .min_inputs = 2,
      .eval = EvalMatMul,
      .role = Weighted{0, 1, -1, [](const Attributes&, int64_t rank) { return rank - 1; },
                       [](const Attributes&, int64_t rank) { return rank - 2; }},
      .exactness = Exactness::kRounding,
      .summary = "Matrix product with broadcast batches",
      .applies_tail = true,
  };
  return def;
}

}  // namespace quant
