#include "libquant/ops/gemm_kernel.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__)
#define NIBBLE_X86_KERNELS
#include <immintrin.h>
#endif

namespace quant {
namespace {

#ifdef NIBBLE_X86_KERNELS

template <int kRows>
void Kernel256(int64_t k, const float* a, const float* b, int64_t b_stride, float* c, int64_t c_stride, bool add) {
  __m256 sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
  for (int64_t p = 0; p < k; ++p, a += kKernelRows, b += b_stride) {
    const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const __m256 x = _mm256_broadcast_ss(a + i);
      sums[i][0] = _mm256_fmadd_ps(x, b0, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(x, b1, sums[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i, c += c_stride) {
    if (add) {
      sums[i][0] = _mm256_add_ps(_mm256_loadu_ps(c), sums[i][0]);
      sums[i][1] = _mm256_add_ps(_mm256_loadu_ps(c + 8), sums[i][1]);
    }
    _mm256_storeu_ps(c, sums[i][0]);
    _mm256_storeu_ps(c + 8, sums[i][1]);
  }
}

template <int kRows>
__attribute__((target("avx512f"))) void Kernel512(int64_t k, const float* a, const float* b, int64_t b_stride, float* c,
                                                  int64_t c_stride, bool add) {
  __m512 sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  for (int64_t p = 0; p < k; ++p, a += kKernelRows, b += b_stride) {
    const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const __m512 x = _mm512_set1_ps(a[i]);
      sums[i][0] = _mm512_fmadd_ps(x, b0, sums[i][0]);
      sums[i][1] = _mm512_fmadd_ps(x, b1, sums[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i, c += c_stride) {
    if (add) {
      sums[i][0] = _mm512_add_ps(_mm512_loadu_ps(c), sums[i][0]);
      sums[i][1] = _mm512_add_ps(_mm512_loadu_ps(c + 16), sums[i][1]);
    }
    _mm512_storeu_ps(c, sums[i][0]);
    _mm512_storeu_ps(c + 16, sums[i][1]);
  }
}

constexpr GemmKernel kKernels[] = {
    {16, {Kernel256<1>, Kernel256<2>, Kernel256<3>, Kernel256<4>, Kernel256<5>, Kernel256<6>}},
    {32, {Kernel512<1>, Kernel512<2>, Kernel512<3>, Kernel512<4>, Kernel512<5>, Kernel512<6>}}};

#else

template <int kRows>
void PlainKernel(int64_t k, const float* a, const float* b, int64_t b_stride, float* c, int64_t c_stride, bool add) {
  float sums[kRows][16] = {};
  for (int64_t p = 0; p < k; ++p, a += kKernelRows, b += b_stride) {
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < 16; ++j) sums[i][j] = std::fma(a[i], b[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i, c += c_stride) {
    for (int j = 0; j < 16; ++j) c[j] = add ? c[j] + sums[i][j] : sums[i][j];
  }
}

constexpr GemmKernel kKernels[] = {
    {16, {PlainKernel<1>, PlainKernel<2>, PlainKernel<3>, PlainKernel<4>, PlainKernel<5>, PlainKernel<6>}}};

#endif

}  // namespace

std::span<const GemmKernel> RunnableGemmKernels() {
#ifdef NIBBLE_X86_KERNELS
  static const size_t count = __builtin_cpu_supports("avx512f") ? 2 : 1;
  return {kKernels, count};
#else
  return kKernels;
#endif
}

}  // namespace quant
