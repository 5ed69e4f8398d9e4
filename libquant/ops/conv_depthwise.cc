// Depthwise Conv. Rows of an input plane are copied padded and sorted by phase, a band of them at a time that fits the
// first-level cache, so that whatever the stride, a tap of outputs o, o+1, ... reads consecutive elements and needs no
// bounds check. Long rows of outputs are made in place; short ones as flat positions of the copy, many rows in one run.
#include <Eigen/Core>
#include <algorithm>
#include <type_traits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/phased_plane.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

template <typename T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <typename T>
constexpr int64_t kPacket = Eigen::internal::packet_traits<T>::size;
constexpr int64_t kMaxPackets = 4;
template <typename T>
constexpr int64_t kBlock = kMaxPackets* kPacket<T>;

constexpr int64_t kBandElements = 4096;    // of a band's copy
constexpr int64_t kPieceElements = 16384;  // of the copies of a thread's turn
constexpr int64_t kLongRow = 64;           // no less than a block

// out[j] = bias + sum over taps of weight * base[offset + j], for kPackets packets of j, with one rounding a tap.
template <typename T, int kPackets>
void SumTaps(const std::vector<int64_t>& offsets, const T* weights, const T* base, T bias, T* out) {
  namespace in = Eigen::internal;
  Packet<T> sums[kPackets];
#pragma GCC unroll 4
  for (int i = 0; i < kPackets; ++i) sums[i] = in::pset1<Packet<T>>(bias);
  for (size_t t = 0; t < offsets.size(); ++t) {
    const T* v = base + offsets[t];
    const Packet<T> weight = in::pset1<Packet<T>>(weights[t]);
#pragma GCC unroll 4
    for (int i = 0; i < kPackets; ++i) {
      sums[i] = in::pmadd(weight, in::ploadu<Packet<T>>(v + i * kPacket<T>), sums[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kPackets; ++i) in::pstoreu(out + i * kPacket<T>, sums[i]);
}

// Elements [0, count) of `out` in whole blocks, the last of which may begin before the end of the one before. A count
// below a block is rounded up: both `base` and `out` have room for one.
template <typename T>
void SumRun(const std::vector<int64_t>& offsets, const T* weights, const T* base, T bias, int64_t count, T* out) {
  int64_t j = 0;
  for (; j + kBlock<T> < count; j += kBlock<T>) SumTaps<T, kMaxPackets>(offsets, weights, base + j, bias, out + j);
  j = std::max<int64_t>(count - kBlock<T>, 0);
  SumTaps<T, kMaxPackets>(offsets, weights, base + j, bias, out + j);
}

struct Bands {
  PhasedPlane copy;
  int64_t rows;   // of outputs in a band; the last has fewer
  int64_t count;  // of bands in a plane
};

Bands CutBands(const ConvPlan& plan) {
  std::array<WindowAxis, 3> axes = plan.axes;
  const PhasedPlane whole(axes);
  WindowAxis& h = axes[1];
  const int64_t wanted = CeilDiv(whole.elements(), kBandElements);
  // Rows that two bands share are copied twice.
  const int64_t shared = (h.extent() - 1) / h.stride;
  const int64_t rows = std::min(h.out, std::max(CeilDiv(h.out, wanted), 4 * shared));
  const int64_t count = CeilDiv(h.out, rows);
  h.out = rows;
  return {PhasedPlane(axes), rows, count};
}

}  // namespace

template <typename T>
void DepthwiseConv(const KernelContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias,
                   const Tail& tail, T* y) {
  if (plan.batch == 0 || plan.out_plane == 0) return;
  const Bands bands = CutBands(plan);
  const PhasedPlane& copy = bands.copy;
  const int64_t width = plan.axes[2].out;
  const bool in_place = width >= kLongRow;
  // A block may be longer than all positions.
  const int64_t copied = copy.elements() + kBlock<T>;
  const int64_t made = in_place ? 0 : copy.positions() + kBlock<T>;
  ScratchPool scratch(context, (copied + made) * static_cast<int64_t>(sizeof(T)));
  const int64_t items = plan.batch * plan.groups * bands.count;
  const int64_t in_piece = std::max<int64_t>(1, kPieceElements / copied);
  ParallelFor(CeilDiv(items, in_piece), [&](int64_t piece) {
    auto lease = scratch.Borrow();
    T* band = lease.template as<T>();
    T* sums = band + copied;
    std::fill_n(band + copy.elements(), kBlock<T>, T{0});
    for (int64_t item = piece * in_piece; item < std::min((piece + 1) * in_piece, items); ++item) {
      const int64_t plane = item / bands.count, first = item % bands.count * bands.rows;
      const int64_t rows = std::min(bands.rows, plan.axes[1].out - first);
      copy.Copy(x + plane * plan.in_plane, first, band);
      for (int64_t m = 0; m < plan.out_channels; ++m) {
        const int64_t filter = plane % plan.groups * plan.out_channels + m;
        const int64_t at = (plane * plan.out_channels + m) * plan.out_plane + first * width;
        const T* weights = w + filter * plan.taps;
        const T start = bias != nullptr ? bias[filter] : T{0};
        if (in_place) {
          for (int64_t r = 0; r < rows; ++r) {
            SumRun(copy.tap_offsets(), weights, band + r * copy.row(), start, width, y + at + r * width);
          }
        } else {
          const int64_t positions = (rows - 1) * copy.row() + width;
          SumRun(copy.tap_offsets(), weights, band, start, positions, sums);
          copy.TakeOutputs(sums, 0, positions, y + at);
        }
        if constexpr (std::is_same_v<T, float>) {
          if (tail) tail(y + at, at, rows * width);
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
