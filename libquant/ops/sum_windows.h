// Sums over the windows of a row, for pools that add up.
#pragma once

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/ops/window.h"

namespace quant {

// sums[o] += f(element) for the row's elements in window o.
template <typename T, typename F>
void AddWindows(const WindowAxis& w, const T* row, double* sums, F f) {
  // Only taps that some output has inside the input.
  for (int64_t k = w.FirstTap(w.start(w.out - 1)); k < w.LastTap(w.start(0)); ++k) {
    const int64_t first = k * w.dilation - w.pad_begin;
    const int64_t lo = first >= 0 ? 0 : std::min(w.out, CeilDiv(-first, w.stride));
    const int64_t hi = first >= w.in ? 0 : std::min(w.out, CeilDiv(w.in - first, w.stride));
    const T* in = row + first;
    if (w.stride == 1) {
      for (int64_t o = lo; o < hi; ++o) sums[o] += f(in[o]);
    } else {
      for (int64_t o = lo; o < hi; ++o) sums[o] += f(in[o * w.stride]);
    }
  }
}

}  // namespace quant
