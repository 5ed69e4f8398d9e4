// Depthwise Conv. Each input plane is copied once with its columns padded and sorted by phase (column modulo stride),
// so that whatever the stride, tap k of outputs o, o+1, ... reads consecutive elements and needs no bounds check.
// Outputs are made in blocks that may run past the end of a line; what lies there is overwritten by the next line.
#include <Eigen/Core>
#include <algorithm>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/deinterleave.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

template <typename T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <typename T>
constexpr int64_t kPacket = Eigen::internal::packet_traits<T>::size;
constexpr int64_t kMaxPackets = 4;

// The layout of a copied plane: per input row, `phases` runs of `run` elements.
struct PhaseRows {
  int64_t phases;
  int64_t run;
  int64_t row() const { return phases * run; }
};

// Columns of a phase that hold input, [lo, hi), and the input column of element 0 (which may be negative).
struct PhaseColumns {
  int64_t first, lo, hi;
};

struct DepthwisePlan {
  PhaseRows rows;
  std::vector<PhaseColumns> phases;
  std::vector<int64_t> taps;  // where each tap lies in the copied plane, seen from output column 0 and kernel row 0
};

DepthwisePlan PlanDepthwise(const ConvPlan& plan) {
  const auto &h = plan.axes[1], &w = plan.axes[2];
  DepthwisePlan out;
  out.rows = {w.stride, w.out + (w.extent() - 1) / w.stride};
  for (int64_t phase = 0; phase < w.stride; ++phase) {
    const int64_t first = phase - w.pad_begin;
    const auto [lo, hi] = IndicesInside(first, w.stride, w.in, out.rows.run);
    out.phases.push_back({first, lo, hi});
  }
  for (int64_t kh = 0; kh < h.kernel; ++kh) {
    for (int64_t kw = 0; kw < w.kernel; ++kw) {
      const int64_t column = kw * w.dilation;
      out.taps.push_back(kh * h.dilation * out.rows.row() + column % w.stride * out.rows.run + column / w.stride);
    }
  }
  return out;
}

template <typename T>
void CopyPlane(const WindowAxis& h, const WindowAxis& w, const DepthwisePlan& plan, const T* x, T* out) {
  const int64_t run = plan.rows.run;
  for (int64_t i = 0; i < h.in; ++i, x += w.in) {
    for (const PhaseColumns& phase : plan.phases) {
      for (int64_t j = 0; j < phase.lo; ++j) out[j] = 0;
      if (phase.lo < phase.hi) {
        CopyEveryNth(x + (phase.first + phase.lo * w.stride), w.stride, phase.hi - phase.lo, out + phase.lo);
      }
      for (int64_t j = phase.hi; j < run; ++j) out[j] = 0;
      out += run;
    }
  }
}

// A part of the kernel's taps: whole kernel rows.
template <typename T>
struct Taps {
  const int64_t* offsets;
  const T* weights;
  int64_t count;
};

// out[j] = bias + sum over taps of weight * base[offset + j], for kPackets packets of j, with one rounding a tap.
template <typename T, int kPackets>
void SumTaps(const Taps<T>& taps, const T* base, T bias, T* out) {
  namespace in = Eigen::internal;
  Packet<T> sums[kPackets];
#pragma GCC unroll 4
  for (int i = 0; i < kPackets; ++i) sums[i] = in::pset1<Packet<T>>(bias);
  for (int64_t t = 0; t < taps.count; ++t) {
    const T* v = base + taps.offsets[t];
    const Packet<T> weight = in::pset1<Packet<T>>(taps.weights[t]);
#pragma GCC unroll 4
    for (int i = 0; i < kPackets; ++i) {
      sums[i] = in::pmadd(weight, in::ploadu<Packet<T>>(v + i * kPacket<T>), sums[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kPackets; ++i) in::pstoreu(out + i * kPacket<T>, sums[i]);
}

// One block of outputs at `out`, of which `wanted` are; `room` elements may be written there.
template <typename T, int kPackets>
void FilterBlock(const Taps<T>& taps, const T* base, T bias, int64_t wanted, int64_t room, T* out) {
  if (room >= kPackets * kPacket<T>) return SumTaps<T, kPackets>(taps, base, bias, out);
  T block[static_cast<size_t>(kPackets * kPacket<T>)];
  SumTaps<T, kPackets>(taps, base, bias, block);
  std::copy_n(block, wanted, out);
}

template <typename T>
void FilterPlane(const ConvPlan& conv, const DepthwisePlan& plan, const T* plane, const T* w, T bias, T* y) {
  const auto &h = conv.axes[1], &col = conv.axes[2];
  const T* const end = y + conv.out_plane;
  for (int64_t oh = 0; oh < h.out; ++oh, y += col.out) {
    const int64_t begin = h.start(oh);
    const int64_t first = h.FirstTap(begin), last = std::max(h.LastTap(begin), first);
    // Only kernel rows inside the input; the first of them is in row begin + first * dilation.
    const Taps<T> taps = {plan.taps.data(), w + first * col.kernel, (last - first) * col.kernel};
    const T* base = last > first ? plane + (begin + first * h.dilation) * plan.rows.row() : plane;
    for (int64_t ow = 0; ow < col.out;) {
      const int64_t left = col.out - ow, room = end - (y + ow);
      if (left > 2 * kPacket<T>) {
        FilterBlock<T, kMaxPackets>(taps, base + ow, bias, std::min(left, kMaxPackets * kPacket<T>), room, y + ow);
        ow += kMaxPackets * kPacket<T>;
      } else if (left > kPacket<T>) {
        FilterBlock<T, 2>(taps, base + ow, bias, left, room, y + ow);
        ow += 2 * kPacket<T>;
      } else {
        FilterBlock<T, 1>(taps, base + ow, bias, left, room, y + ow);
        ow += kPacket<T>;
      }
    }
  }
}

constexpr int64_t kPieceElements = 16384;

}  // namespace

template <typename T>
void DepthwiseConv(const KernelContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias,
                   const Tail& tail, T* y) {
  const auto &h = plan.axes[1], &col = plan.axes[2];
  const DepthwisePlan depthwise = PlanDepthwise(plan);
  // The last block of the last row reads past it.
  const int64_t elements = h.in * depthwise.rows.row() + kMaxPackets * kPacket<T>;
  const int64_t planes = plan.batch * plan.groups, in_piece = std::max<int64_t>(1, kPieceElements / elements);
  ScratchPool scratch(context, elements * static_cast<int64_t>(sizeof(T)));
  ParallelFor(CeilDiv(planes, in_piece), [&](int64_t piece) {
    auto lease = scratch.Borrow();
    T* plane = lease.template as<T>();
    std::fill_n(plane + (elements - kMaxPackets * kPacket<T>), kMaxPackets * kPacket<T>, T{0});
    for (int64_t item = piece * in_piece; item < std::min((piece + 1) * in_piece, planes); ++item) {
      CopyPlane(h, col, depthwise, x + item * plan.in_plane, plane);
      for (int64_t m = 0; m < plan.out_channels; ++m) {
        const int64_t filter = item % plan.groups * plan.out_channels + m;
        const int64_t at = (item * plan.out_channels + m) * plan.out_plane;
        FilterPlane(plan, depthwise, plane, w + filter * plan.taps, bias != nullptr ? bias[filter] : T{0}, y + at);
        if constexpr (std::is_same_v<T, float>) {
          if (tail) tail(y + at, at, plan.out_plane);
        }
      }
    }
  });
}

template void DepthwiseConv(const KernelContext&, const ConvPlan&, const float*, const float*, const float*,
                            const Tail&, float*);
template void DepthwiseConv(const KernelContext&, const ConvPlan&, const double*, const double*, const double*,
                            const Tail&, double*);

}  // namespace quant
