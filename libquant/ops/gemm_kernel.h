// The innermost loop of the float32 matrix product: a few rows times a strip of columns, in registers.
//   c[i, j] (+)= sum over p of a[p * kKernelRows + i] * b[p * b_stride + j]     i < rows, j < columns of the kernel
// Each element of c is one chain of fused multiply-adds over p, in order, whatever the width of the machine's vectors,
// so every kernel gives the same bytes.
#pragma once

#include <cstdint>
#include <span>

namespace quant {

constexpr int64_t kKernelRows = 6;
constexpr int64_t kMaxKernelColumns = 32;

struct GemmKernel {
  using Function = void (*)(int64_t k, const float* a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                            bool add);
  int64_t columns;                // of a strip
  Function by_rows[kKernelRows];  // the function for 1 to kKernelRows rows
};

// Those that this machine runs, the best one last.
std::span<const GemmKernel> RunnableGemmKernels();
inline const GemmKernel& BestGemmKernel() { return RunnableGemmKernels().back(); }

}  // namespace quant
