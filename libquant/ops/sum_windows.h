// Sums over windows, for pools that add up.
#pragma once

#include <algorithm>

#include "libquant/ops/window.h"

namespace quant {

// sums[o] += f(element) for the row's elements in window o.
template <typename T, typename F>
void AddWindows(const WindowAxis& w, const T* row, double* sums, F f) {
  // Only taps that some output has inside the input.
  for (int64_t k = w.FirstTap(w.start(w.out - 1)); k < w.LastTap(w.start(0)); ++k) {
    const auto [lo, hi] = w.OutputsInside(k);
    const T* in = row + (k * w.dilation - w.pad_begin);
    if (w.stride == 1) {
      for (int64_t o = lo; o < hi; ++o) sums[o] += f(in[o]);
    } else {
      for (int64_t o = lo; o < hi; ++o) sums[o] += f(in[o * w.stride]);
    }
  }
}

// sums[o] = sum of f(element) over the window of output (slice, line, o) of a plane, for each o.
template <typename T, typename F>
void SumWindows(const std::array<WindowAxis, 3>& axes, int64_t slice, int64_t line, const T* plane, double* sums, F f) {
  const auto& [d, h, w] = axes;
  std::fill_n(sums, w.out, 0.0);
  const int64_t d0 = d.start(slice), h0 = h.start(line);
  for (int64_t kd = d.FirstTap(d0); kd < d.LastTap(d0); ++kd) {
    for (int64_t kh = h.FirstTap(h0); kh < h.LastTap(h0); ++kh) {
      AddWindows(w, plane + ((d0 + kd * d.dilation) * h.in + h0 + kh * h.dilation) * w.in, sums, f);
    }
  }
}

}  // namespace quant
