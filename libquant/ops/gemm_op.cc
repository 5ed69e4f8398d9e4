// Gemm: y = alpha * a' * b' + beta * c, with a' and b' optionally transposed and c broadcast to y
// (before opset 7 only when attribute `broadcast` says so, which changes nothing where shapes fit).
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm_node.h"

namespace quant {
namespace {

template <typename T>
Status EvalFloat(KernelContext& context, const GemmNode& g) {
  const Tensor &a = context.in(0), &b = context.in(1);
  ASSIGN_OR_RETURN(const auto as, FloatInput<T>::Of(context, &a));
  ASSIGN_OR_RETURN(const auto bs, FloatInput<T>::Of(context, &b));
  ASSIGN_OR_RETURN(const auto cs, FloatInput<T>::Of(context, context.input(2)));
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, a.dtype(), {g.size.m, g.size.n}));
  const T *c = cs.data(), alpha = g.alpha, beta = g.beta;
  T* out = y.data();
  // beta * c goes in first, unless the product must be scaled on its own.
  const bool add_first = c != nullptr && alpha == 1;
  for (int64_t i = 0; add_first && i < g.size.m; ++i) {
    const T* row = c + i * g.c_row;
    T* to = out + i * g.size.n;
    for (int64_t j = 0; j < g.size.n; ++j) to[j] = beta * row[j * g.c_col];
  }
  GemmBatch<T>(g.size, 1, [&](int64_t) {
    return GemmOperands<T>{
        {as.data(), a.dims()[1], g.trans_a}, {bs.data(), b.dims()[1], g.trans_b}, out, g.size.n, add_first};
  });
  if (alpha != 1) {
    for (int64_t i = 0; i < g.size.m; ++i) {
      T* to = out + i * g.size.n;
      for (int64_t j = 0; j < g.size.n; ++j) to[j] *= alpha;
      for (int64_t j = 0; c != nullptr && j < g.size.n; ++j) to[j] += beta * c[i * g.c_row + j * g.c_col];
    }
  }
  return y.Finish();
}

// The factors are floats; integers are multiplied by their integer part.
int64_t WholePart(float factor) {
  return std::isnan(factor) ? 0 : static_cast<int64_t>(std::clamp(factor, -2147483648.0F, 2147483520.0F));
}

template <typename T>
Status EvalInteger(KernelContext& context, const GemmNode& g) {
  using U = std::make_unsigned_t<T>;
  const U alpha = static_cast<U>(WholePart(g.alpha)), beta = static_cast<U>(WholePart(g.beta));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DTypeOf<T>(), {g.size.m, g.size.n}));
  const T *a = context.in(0).data<T>().data(), *b = context.in(1).data<T>().data();
  const T* c = context.input(2) != nullptr ? context.input(2)->data<T>().data() : nullptr;
  const int64_t a_cols = context.in(0).dims()[1], b_cols = context.in(1).dims()[1];
  T* out = y->mutable_data<T>().data();
  ParallelFor(g.size.m, [&](int64_t i) {
    for (int64_t j = 0; j < g.size.n; ++j) {
      U sum = 0;
      for (int64_t p = 0; p < g.size.k; ++p) {
        sum += static_cast<U>(a[g.trans_a ? p * a_cols + i : i * a_cols + p]) *
               static_cast<U>(b[g.trans_b ? j * b_cols + p : p * b_cols + j]);
      }
      sum *= alpha;
      if (c != nullptr) sum += beta * static_cast<U>(c[i * g.c_row + j * g.c_col]);
      out[i * g.size.n + j] = static_cast<T>(sum);
    }
  });
  return OkStatus();
}

int64_t ChannelAxis(const Attributes& attributes, int64_t) { return attributes.Int("transB", 0) != 0 ? 0 : 1; }
int64_t ReductionAxis(const Attributes& attributes, int64_t) { return attributes.Int("transB", 0) != 0 ? 1 : 0; }

}  // namespace

StatusOr<GemmNode> ReadGemm(const Attributes& attributes, const Dims& a, const Dims& b, const Tensor* c) {
  if (a.size() != 2 || b.size() != 2) return DataError("Gemm takes matrices, not {} and {}", ToString(a), ToString(b));
  GemmNode g;
  g.trans_a = attributes.Int("transA", 0) != 0;
  g.trans_b = attributes.Int("transB", 0) != 0;
  g.alpha = attributes.Float("alpha", 1);
  g.beta = attributes.Float("beta", 1);
  g.size = {a[g.trans_a ? 1 : 0], b[g.trans_b ? 0 : 1], a[g.trans_a ? 0 : 1]};
  if (b[g.trans_b ? 1 : 0] != g.size.k) {
    return DataError("{} and {} can't be multiplied with transA {} and transB {}", ToString(a), ToString(b), g.trans_a,
                     g.trans_b);
  }
  if (c == nullptr) return g;
  const Dims& dims = c->dims();
  const int64_t cols = dims.empty() ? 1 : dims.back();
  const int64_t rows = dims.size() < 2 ? 1 : dims[0];
  if (dims.size() > 2 || (cols != 1 && cols != g.size.n) || (rows != 1 && rows != g.size.m)) {
    return DataError("C of {} can't be broadcast to {}x{}", ToString(dims), g.size.m, g.size.n);
  }
  g.c_col = cols == 1 ? 0 : 1;
  g.c_row = rows == 1 ? 0 : cols;
  return g;
}

Status EvalGemm(KernelContext& context) {
  RETURN_IF_ERROR(SameTypes(context, {1, 2}));
  ASSIGN_OR_RETURN(const GemmNode g,
                   ReadGemm(context.attributes(), context.in(0).dims(), context.in(1).dims(), context.input(2)));
  switch (context.in(0).dtype()) {
    case DType::kInt32:
      return EvalInteger<int32_t>(context, g);
    case DType::kUint32:
      return EvalInteger<uint32_t>(context, g);
    case DType::kInt64:
      return EvalInteger<int64_t>(context, g);
    case DType::kUint64:
      return EvalInteger<uint64_t>(context, g);
    default:
      return WithComputeType(context.in(0).dtype(), [&](auto zero) { return EvalFloat<decltype(zero)>(context, g); });
  }
}

const OpDef& GemmOp() {
  static const OpDef def = {
      .name = "Gemm",
      .since = {6, 7, 9, 11, 13},
      .min_inputs = 2,
      .eval = EvalGemm,
      .role = Weighted{0, 1, 2, ChannelAxis, ReductionAxis},
      .exactness = Exactness::kRounding,
      .summary = "Matrix product with transposes, scales and an added matrix",
  };
  return def;
}

}  // namespace quant
