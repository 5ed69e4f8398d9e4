#include "libquant/ops/conv_shift.h"

#include <algorithm>
#include <array>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_weights.h"
#include "libquant/ops/deinterleave.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/gemm_kernel.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

constexpr int64_t kColumns = 384;  // positions of a tile
constexpr int64_t kMinColumns = 96;
constexpr int64_t kFilters = 192;  // filters of a tile
constexpr int64_t kMinFilters = 48;
constexpr int64_t kRowMultiple = 48;  // of the kernel's rows
constexpr int64_t kWantedTiles = 16;
constexpr int64_t kChunkElements = int64_t{1} << 20;  // of the copies of images worked on at a time, one at least

// One axis of the copy: for each phase that a tap needs, `run` elements. Element j of phase p is input p + j * stride -
// pad.
struct PhasedAxis {
  std::vector<int64_t> phases;
  int64_t run = 0;

  explicit PhasedAxis(const WindowAxis& axis) : run(axis.out + (axis.extent() - 1) / axis.stride) {
    for (int64_t k = 0; k < axis.kernel; ++k) phases.push_back(k * axis.dilation % axis.stride);
    std::sort(phases.begin(), phases.end());
    phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  }
  int64_t count() const { return static_cast<int64_t>(phases.size()); }
  // Where the phase of tap k lies among the phases.
  int64_t IndexOf(const WindowAxis& axis, int64_t k) const {
    return std::lower_bound(phases.begin(), phases.end(), k * axis.dilation % axis.stride) - phases.begin();
  }
};

struct Copy {
  std::array<PhasedAxis, 3> axes;
  int64_t phase_size;  // elements of one combination of phases
  int64_t plane;       // of one channel
  int64_t positions;   // flat positions from the first output to the last

  explicit Copy(const ConvPlan& plan)
      : axes{PhasedAxis(plan.axes[0]), PhasedAxis(plan.axes[1]), PhasedAxis(plan.axes[2])} {
    phase_size = axes[0].run * axes[1].run * axes[2].run;
    plane = phase_size * axes[0].count() * axes[1].count() * axes[2].count();
    const auto& [d, h, w] = plan.axes;
    positions = ((d.out - 1) * axes[1].run + h.out - 1) * axes[2].run + w.out;
  }
};

// Offsets of the taps of all input channels of a group, in the order of the weight.
std::vector<int64_t> TapOffsets(const ConvPlan& plan, const Copy& copy) {
  std::vector<int64_t> out;
  const auto& [d, h, w] = plan.axes;
  const auto& [pd, ph, pw] = copy.axes;
  for (int64_t c = 0; c < plan.in_channels; ++c) {
    for (int64_t i = 0; i < d.kernel; ++i) {
      for (int64_t j = 0; j < h.kernel; ++j) {
        for (int64_t k = 0; k < w.kernel; ++k) {
          const int64_t phase = (pd.IndexOf(d, i) * ph.count() + ph.IndexOf(h, j)) * pw.count() + pw.IndexOf(w, k);
          const int64_t slice = i * d.dilation / d.stride, line = j * h.dilation / h.stride;
          out.push_back(c * copy.plane + phase * copy.phase_size + (slice * ph.run + line) * pw.run +
                        k * w.dilation / w.stride);
        }
      }
    }
  }
  return out;
}

// One row of a phase: elements of the input row, zeros in the padding and past the input's end.
void CopyRow(const WindowAxis& w, int64_t phase, int64_t run, const float* row, float* out) {
  const int64_t first = phase - w.pad_begin;
  const auto [lo, hi] = IndicesInside(first, w.stride, w.in, run);
  std::fill(out, out + lo, 0.0F);
  if (lo < hi) CopyEveryNth(row + (first + lo * w.stride), w.stride, hi - lo, out + lo);
  std::fill(out + hi, out + run, 0.0F);
}

void CopyChannel(const ConvPlan& plan, const Copy& copy, const float* x, float* out) {
  const auto& [d, h, w] = plan.axes;
  const auto& [pd, ph, pw] = copy.axes;
  for (int64_t phase_d : pd.phases) {
    for (int64_t phase_h : ph.phases) {
      for (int64_t phase_w : pw.phases) {
        for (int64_t slice = 0; slice < pd.run; ++slice) {
          const int64_t id = phase_d + slice * d.stride - d.pad_begin;
          for (int64_t line = 0; line < ph.run; ++line, out += pw.run) {
            const int64_t ih = phase_h + line * h.stride - h.pad_begin;
            if (id < 0 || id >= d.in || ih < 0 || ih >= h.in) {
              std::fill(out, out + pw.run, 0.0F);
            } else {
              CopyRow(w, phase_w, pw.run, x + (id * h.in + ih) * w.in, out);
            }
          }
        }
      }
    }
  }
}

struct Tiles {
  int64_t columns, filters;
  int64_t column_count, filter_count;
};

// Depends on the shapes alone, never on the number of threads.
Tiles ChooseTiles(const ConvPlan& plan, const Copy& copy, int64_t images) {
  Tiles t;
  const int64_t others = images * plan.groups;
  const int64_t wanted = CeilDiv(kWantedTiles, others);
  t.columns =
      TileSize(copy.positions, std::clamp(CeilDiv(copy.positions, wanted), kMinColumns, kColumns), kMaxKernelColumns);
  t.column_count = CeilDiv(copy.positions, t.columns);
  const int64_t left = CeilDiv(wanted, t.column_count);
  t.filters =
      TileSize(plan.out_channels, std::clamp(CeilDiv(plan.out_channels, left), kMinFilters, kFilters), kRowMultiple);
  t.filter_count = CeilDiv(plan.out_channels, t.filters);
  return t;
}

// Copies the wanted ones of positions [begin, end) of one filter to its plane of y. Returns the outputs made; begin is
// -1 when there are none.
IndexRange TakeOutputs(const ConvPlan& plan, const Copy& copy, const float* made, int64_t begin, int64_t end,
                       float* y) {
  const auto& [d, h, w] = plan.axes;
  const int64_t run = copy.axes[2].run, lines = copy.axes[1].run;
  IndexRange range = {-1, -1};
  for (int64_t q = begin; q < end;) {
    const int64_t column = q % run, line = q / run % lines, slice = q / run / lines;
    const int64_t next = std::min(end, q - column + run);
    if (line < h.out && column < w.out) {
      const int64_t count = std::min(next - q, w.out - column);
      const int64_t at = (slice * h.out + line) * w.out + column;
      std::copy_n(made + (q - begin), count, y + at);
      if (range.begin < 0) range.begin = at;
      range.end = at + count;
    }
    q = next;
  }
  return range;
}

}  // namespace

bool SuitsConvByShift(const ConvPlan& plan) {
  if (plan.out_plane == 0 || plan.batch == 0) return false;
  const auto strips = [](int64_t n) { return CeilDiv(n, 16); };
  // A copy much larger than the input (a dilated kernel wider than it, say) is not worth making.
  const Copy copy(plan);
  return 2 * strips(copy.positions) <= 3 * strips(plan.out_plane) && copy.plane <= 4 * plan.in_plane + 1024;
}

void ConvByShift(const KernelContext& context, const ConvPlan& plan, const float* x, const float* w, const float* bias,
                 const Tail& tail, float* y) {
  const Copy copy(plan);
  const std::vector<int64_t> offsets = TapOffsets(plan, copy);
  const int64_t k = plan.reduction(), filters = plan.out_channels, channels = plan.groups * plan.in_channels;
  const auto weights = PackConvWeights(context, plan, w);
  const int64_t image = channels * copy.plane;
  const int64_t images = std::clamp<int64_t>(kChunkElements / std::max<int64_t>(image, 1), 1, plan.batch);
  const Tiles tiles = ChooseTiles(plan, copy, images);
  // Strips are read whole, past the last position.
  const auto buffer = context.Scratch((images * image + kMaxKernelColumns) * static_cast<int64_t>(sizeof(float)));
  auto* copies = reinterpret_cast<float*>(buffer->data());
  std::fill_n(copies + images * image, kMaxKernelColumns, 0.0F);
  const int64_t stride = CeilDiv(tiles.columns, kMaxKernelColumns) * kMaxKernelColumns;
  ScratchPool scratch(context, stride * tiles.filters * static_cast<int64_t>(sizeof(float)));
  for (int64_t first = 0; first < plan.batch; first += images) {
    const int64_t count = std::min(images, plan.batch - first);
    ParallelFor(count * channels, [&](int64_t c) {
      CopyChannel(plan, copy, x + (first * channels + c) * plan.in_plane, copies + c * copy.plane);
    });
    ParallelFor(count * plan.groups * tiles.column_count * tiles.filter_count, [&](int64_t item) {
      const int64_t filter = item % tiles.filter_count * tiles.filters;
      const int64_t begin = item / tiles.filter_count % tiles.column_count * tiles.columns;
      const int64_t group = item / tiles.filter_count / tiles.column_count;  // n * groups + g
      const int64_t rows = std::min(tiles.filters, filters - filter);
      const int64_t end = std::min(begin + tiles.columns, copy.positions);
      const int64_t bias_at = group % plan.groups * filters + filter;
      auto lease = scratch.Borrow();
      float* tile = lease.as<float>();
      for (int64_t m = 0; m < rows && bias != nullptr; ++m) std::fill_n(tile + m * stride, stride, bias[bias_at + m]);
      ScatteredTile({rows, end - begin, k}, (*weights)[static_cast<size_t>(group % plan.groups)], filter,
                    copies + group * plan.in_channels * copy.plane + begin, offsets.data(), tile, stride,
                    bias != nullptr);
      for (int64_t m = 0; m < rows; ++m) {
        const int64_t plane = ((first * plan.groups + group) * filters + filter + m) * plan.out_plane;
        const IndexRange made = TakeOutputs(plan, copy, tile + m * stride, begin, end, y + plane);
        if (tail && made.begin >= 0) tail(y + plane + made.begin, plane + made.begin, made.end - made.begin);
      }
    });
  }
}

}  // namespace quant
