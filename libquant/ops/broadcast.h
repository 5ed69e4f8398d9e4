// Numpy-style broadcasting as a walk over rows. Neighbouring axes with the same pattern are merged, so that equal
// shapes are one long row, a bias is rows with a constant or contiguous operand, and only odd shapes cost more.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libquant/base/parallel.h"
#include "libquant/ops/op_def.h"

namespace quant {

struct BroadcastPlan {
  Dims out;                                   // the result's dims
  Dims dims;                                  // merged, innermost last; at least one
  std::vector<std::vector<int64_t>> strides;  // per operand and merged axis, in elements; 0 where it repeats
  int64_t size = 0;                           // elements of the result
};

// DataError when the shapes do not fit together.
StatusOr<BroadcastPlan> PlanBroadcast(const std::vector<const Tensor*>& operands);

// Calls row(out_offset, operand_offsets, length) for pieces of rows that cover the result, on all threads; the step of
// operand i along a row is strides[i].back() (0 or 1).
void ForEachRow(const BroadcastPlan& plan,
                const std::function<void(int64_t out, std::span<const int64_t> offsets, int64_t length)>& row);

// out[i] = f(a[i], b[i]) over one row.
template <typename A, typename B, typename R, typename F>
void ApplyRow(const A* a, int64_t a_step, const B* b, int64_t b_step, R* out, int64_t length, F f) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < length; ++i) out[i] = f(a[i], b[i]);
  } else if (a_step == 1) {
    const B y = *b;
    for (int64_t i = 0; i < length; ++i) out[i] = f(a[i], y);
  } else if (b_step == 1) {
    const A x = *a;
    for (int64_t i = 0; i < length; ++i) out[i] = f(x, b[i]);
  } else {
    const R value = f(*a, *b);
    for (int64_t i = 0; i < length; ++i) out[i] = value;
  }
}

// The whole of a two-operand kernel: output 0 of type R from inputs of types A and B. `kInPlace`: no other input is
// read afterwards, so that the output may take an input's memory.
template <typename A, typename B, typename R, bool kInPlace = false, typename F>
Status BroadcastBinary(KernelContext& context, const Tensor& a, const Tensor& b, F f) {
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast({&a, &b}));
  ASSIGN_OR_RETURN(Tensor * out, kInPlace ? context.AllocateOverInput(0, DTypeOf<R>(), plan.out)
                                          : context.Allocate(0, DTypeOf<R>(), plan.out));
  const A* x = a.data<A>().data();
  const B* y = b.data<B>().data();
  R* z = out->template mutable_data<R>().data();
  const int64_t x_step = plan.strides[0].back();
  const int64_t y_step = plan.strides[1].back();
  ForEachRow(plan, [&](int64_t at, std::span<const int64_t> offsets, int64_t length) {
    ApplyRow(x + offsets[0], x_step, y + offsets[1], y_step, z + at, length, f);
  });
  return OkStatus();
}

}  // namespace quant
