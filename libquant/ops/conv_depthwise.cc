// Depthwise Conv. Each input plane is copied once with its columns padded and sorted by phase (column modulo stride),
// so that whatever the stride, tap k of outputs o, o+1, ... reads consecutive elements and needs no bounds check.
#include <Eigen/Core>
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

template <typename T>
struct Tap {
  const T* values;
  T weight;
};

// The layout of a copied plane: per input row, `phases` runs of `run` elements.
struct PhaseRows {
  int64_t phases;
  int64_t run;
  int64_t row() const { return phases * run; }
};

constexpr int64_t kPackets = 4;
template <typename T>
constexpr int64_t kBlock = kPackets* Eigen::internal::packet_traits<T>::size;

template <typename T>
void CopyPlane(const WindowAxis& h, const WindowAxis& w, const PhaseRows& rows, const T* x, T* out) {
  std::fill_n(out, h.in * rows.row(), T{0});
  for (int64_t i = 0; i < h.in; ++i, x += w.in, out += rows.row()) {
    for (int64_t phase = 0; phase < rows.phases; ++phase) {
      // Padded column of element j is j * stride + phase; its input column is that less the padding.
      const int64_t first = phase - w.pad_begin;
      const int64_t lo = first >= 0 ? 0 : CeilDiv(-first, w.stride);
      const int64_t hi = first >= w.in ? 0 : std::min(CeilDiv(w.in - first, w.stride), rows.run);
      T* run = out + phase * rows.run;
      if (w.stride == 1) {
        if (lo < hi) std::copy(x + (first + lo), x + (first + hi), run + lo);
      } else {
        for (int64_t j = lo; j < hi; ++j) run[j] = x[first + j * w.stride];
      }
    }
  }
}

// out[j] = bias + sum over taps of weight * values[j], for j in [0, kBlock), with one rounding a tap.
template <typename T>
void SumTaps(const std::vector<Tap<T>>& taps, int64_t offset, T bias, T* out) {
  using Packet = typename Eigen::internal::packet_traits<T>::type;
  constexpr int64_t kSize = Eigen::internal::packet_traits<T>::size;
  Packet s0 = Eigen::internal::pset1<Packet>(bias), s1 = s0, s2 = s0, s3 = s0;
  for (const Tap<T>& tap : taps) {
    const T* v = tap.values + offset;
    const Packet weight = Eigen::internal::pset1<Packet>(tap.weight);
    s0 = Eigen::internal::pmadd(weight, Eigen::internal::ploadu<Packet>(v), s0);
    s1 = Eigen::internal::pmadd(weight, Eigen::internal::ploadu<Packet>(v + kSize), s1);
    s2 = Eigen::internal::pmadd(weight, Eigen::internal::ploadu<Packet>(v + 2 * kSize), s2);
    s3 = Eigen::internal::pmadd(weight, Eigen::internal::ploadu<Packet>(v + 3 * kSize), s3);
  }
  Eigen::internal::pstoreu(out, s0);
  Eigen::internal::pstoreu(out + kSize, s1);
  Eigen::internal::pstoreu(out + 2 * kSize, s2);
  Eigen::internal::pstoreu(out + 3 * kSize, s3);
}

template <typename T>
void FilterPlane(const ConvPlan& plan, const PhaseRows& rows, const T* plane, const T* w, T bias, T* y) {
  const auto& h = plan.axes[1];
  const auto& col = plan.axes[2];
  std::vector<Tap<T>> taps;
  taps.reserve(static_cast<size_t>(plan.taps));
  alignas(64) T tail[static_cast<size_t>(kBlock<T>)];
  for (int64_t oh = 0; oh < h.out; ++oh, y += col.out) {
    taps.clear();
    const int64_t begin = h.start(oh);
    for (int64_t kh = h.FirstTap(begin), last = h.LastTap(begin); kh < last; ++kh) {
      const T* row = plane + (begin + kh * h.dilation) * rows.row();
      for (int64_t kw = 0; kw < col.kernel; ++kw) {
        const int64_t column = kw * col.dilation;
        taps.push_back({row + column % col.stride * rows.run + column / col.stride, w[kh * col.kernel + kw]});
      }
    }
    for (int64_t ow = 0; ow < col.out; ow += kBlock<T>) {
      if (ow + kBlock<T> <= col.out) {
        SumTaps(taps, ow, bias, y + ow);
      } else {
        SumTaps(taps, ow, bias, tail);
        std::copy_n(tail, col.out - ow, y + ow);
      }
    }
  }
}

}  // namespace

template <typename T>
void DepthwiseConv(const KernelContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias, T* y) {
  const auto& col = plan.axes[2];
  // The last block reads up to kBlock elements past the last output's.
  const PhaseRows rows{col.stride, col.out + col.extent() / col.stride + 1 + kBlock<T>};
  ScratchPool scratch(context, plan.axes[1].in * rows.row() * static_cast<int64_t>(sizeof(T)));
  ParallelFor(plan.batch * plan.groups, [&](int64_t item) {
    auto lease = scratch.Borrow();
    T* plane = lease.template as<T>();
    CopyPlane(plan.axes[1], col, rows, x + item * plan.in_plane, plane);
    for (int64_t m = 0; m < plan.out_channels; ++m) {
      const int64_t filter = item % plan.groups * plan.out_channels + m;
      FilterPlane(plan, rows, plane, w + filter * plan.taps, bias != nullptr ? bias[filter] : T{0},
                  y + (item * plan.out_channels + m) * plan.out_plane);
    }
  });
}

template void DepthwiseConv(const KernelContext&, const ConvPlan&, const float*, const float*, const float*, float*);
template void DepthwiseConv(const KernelContext&, const ConvPlan&, const double*, const double*, const double*,
                            double*);

}  // namespace quant
