#include "libquant/ops/gemm_kernel.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__)
#define NIBBLE_X86_KERNELS
#include <immintrin.h>
#endif

namespace quant {
namespace {

// Where row p of b is.
struct Strides {
  const float* row;
  int64_t stride;
  const float* operator()(int64_t) {
    const float* now = row;
    row += stride;
    return now;
  }
};
struct Offsets {
  const float* base;
  const int64_t* offsets;
  const float* operator()(int64_t p) const { return base + offsets[p]; }
};

#ifdef NIBBLE_X86_KERNELS

template <int kRows, typename Rows>
inline void Multiply256(int64_t k, const float* a, Rows b, float* c, int64_t c_stride, bool add) {
  __m256 sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
  for (int64_t p = 0; p < k; ++p, a += kKernelRows) {
    const float* row = b(p);
    const __m256 b0 = _mm256_loadu_ps(row), b1 = _mm256_loadu_ps(row + 8);
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

template <int kRows, typename Rows>
__attribute__((target("avx512f"))) inline void Multiply512(int64_t k, const float* a, Rows b, float* c,
                                                           int64_t c_stride, bool add) {
  __m512 sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  for (int64_t p = 0; p < k; ++p, a += kKernelRows) {
    const float* row = b(p);
    const __m512 b0 = _mm512_loadu_ps(row), b1 = _mm512_loadu_ps(row + 16);
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

struct Avx2 {
  static constexpr int64_t kColumns = 16;
  template <int kRows>
  static void Strided(int64_t k, const float* a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                      bool add) {
    Multiply256<kRows>(k, a, Strides{b, b_stride}, c, c_stride, add);
  }
  template <int kRows>
  static void Scattered(int64_t k, const float* a, const float* b, const int64_t* offsets, float* c, int64_t c_stride,
                        bool add) {
    Multiply256<kRows>(k, a, Offsets{b, offsets}, c, c_stride, add);
  }
};

struct Avx512 {
  static constexpr int64_t kColumns = 32;
  template <int kRows>
  __attribute__((target("avx512f"))) static void Strided(int64_t k, const float* a, const float* b, int64_t b_stride,
                                                         float* c, int64_t c_stride, bool add) {
    Multiply512<kRows>(k, a, Strides{b, b_stride}, c, c_stride, add);
  }
  template <int kRows>
  __attribute__((target("avx512f"))) static void Scattered(int64_t k, const float* a, const float* b,
                                                           const int64_t* offsets, float* c, int64_t c_stride,
                                                           bool add) {
    Multiply512<kRows>(k, a, Offsets{b, offsets}, c, c_stride, add);
  }
};

#else

struct Plain {
  static constexpr int64_t kColumns = 16;
  template <int kRows, typename Rows>
  static void Multiply(int64_t k, const float* a, Rows b, float* c, int64_t c_stride, bool add) {
    float sums[kRows][16] = {};
    for (int64_t p = 0; p < k; ++p, a += kKernelRows) {
      const float* row = b(p);
      for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < 16; ++j) sums[i][j] = std::fma(a[i], row[j], sums[i][j]);
      }
    }
    for (int i = 0; i < kRows; ++i, c += c_stride) {
      for (int j = 0; j < 16; ++j) c[j] = add ? c[j] + sums[i][j] : sums[i][j];
    }
  }
  template <int kRows>
  static void Strided(int64_t k, const float* a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                      bool add) {
    Multiply<kRows>(k, a, Strides{b, b_stride}, c, c_stride, add);
  }
  template <int kRows>
  static void Scattered(int64_t k, const float* a, const float* b, const int64_t* offsets, float* c, int64_t c_stride,
                        bool add) {
    Multiply<kRows>(k, a, Offsets{b, offsets}, c, c_stride, add);
  }
};

#endif

template <typename M>
constexpr GemmKernel KernelOf() {
  return {M::kColumns,
          {M::template Strided<1>, M::template Strided<2>, M::template Strided<3>, M::template Strided<4>,
           M::template Strided<5>, M::template Strided<6>},
          {M::template Scattered<1>, M::template Scattered<2>, M::template Scattered<3>, M::template Scattered<4>,
           M::template Scattered<5>, M::template Scattered<6>}};
}

#ifdef NIBBLE_X86_KERNELS
constexpr GemmKernel kKernels[] = {KernelOf<Avx2>(), KernelOf<Avx512>()};
#else
constexpr GemmKernel kKernels[] = {KernelOf<Plain>()};
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
