// The innermost loop of the float32 matrix product: a few rows times a strip of columns, in registers.
//   c[i, j] (+)= sum over p of a[p * kKernelRows + i] * row(p)[j]     i < rows, j < columns of the kernel
// where row p of b is at b + p * stride, or anywhere: at b + offsets[p].
// Each element of c is one chain of fused multiply-adds over p, in order, whatever the width of the machine's vectors,
// so every kernel gives the same bytes.
#pragma once

#include <cstdint>
#include <span>

namespace quant {

constexpr int64_t kKernelRows = 6;
constexpr int64_t kMaxKernelColumns = 32;

struct GemmKernel {
  using Strided = void (*)(int64_t k, const float* a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                           bool add);
  using Scattered = void (*)(int64_t k, const float* a, const float* b, const int64_t* offsets, float* c,
                             int64_t c_stride, bool add);
  int64_t columns;  // of a strip
  // The functions for 1 to kKernelRows rows.
  Strided by_rows[kKernelRows];
  Scattered scattered_by_rows[kKernelRows];
};

// Those that this machine runs, the best one last.
std::span<const GemmKernel> RunnableGemmKernels();
inline const GemmKernel& BestGemmKernel() { return RunnableGemmKernels().back(); }

}  // namespace quant
