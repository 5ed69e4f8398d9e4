// Functions of one tensor, element by element: the walk over the elements and the definition of such an operator.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"

namespace quant {

inline constexpr int64_t kMapPiece = int64_t{1} << 14;

// y[i] = f(x[i]) in the type the elements are computed in, on all threads.
template <typename F>
Status MapFloats(KernelContext& context, F f) {
  const Tensor& x = context.in(0);
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::MakeOverInput(context, 0, x.dtype(), x.dims()));
    const T* from = in.data();
    T* to = out.data();
    ParallelFor(CeilDiv(x.size(), kMapPiece), [&](int64_t piece) {
      const int64_t begin = piece * kMapPiece;
      const int64_t end = std::min(x.size(), begin + kMapPiece);
      for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
    });
    return out.Finish();
  });
}

// The same, a run of elements at a time: f(in, count, out), which may be the same memory.
template <typename F>
Status MapFloatRuns(KernelContext& context, F f) {
  const Tensor& x = context.in(0);
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::MakeOverInput(context, 0, x.dtype(), x.dims()));
    ParallelFor(CeilDiv(x.size(), kMapPiece), [&](int64_t piece) {
      const int64_t begin = piece * kMapPiece;
      f(in.data() + begin, std::min(kMapPiece, x.size() - begin), out.data() + begin);
    });
    return out.Finish();
  });
}

// Any number type, kept exactly.
template <typename F>
Status MapNumbers(KernelContext& context, F f) {
  const Tensor& x = context.in(0);
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    ASSIGN_OR_RETURN(Tensor * out, context.AllocateOverInput(0, x.dtype(), x.dims()));
    const auto from = x.data<T>();
    const auto to = out->mutable_data<T>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(f(static_cast<W>(from[i])));
    return OkStatus();
  });
}

inline OpDef Unary(std::string_view name, std::vector<int64_t> since, Status (*eval)(KernelContext&), Role role,
                   Exactness exactness, std::string_view summary) {
  return {
      .name = name, .since = std::move(since), .eval = eval, .role = role, .exactness = exactness, .summary = summary};
}

}  // namespace quant
