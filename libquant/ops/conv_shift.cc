#include "libquant/ops/conv_shift.h"

#include <algorithm>
#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/conv_weights.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/gemm_kernel.h"
#include "libquant/ops/phased_plane.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

constexpr int64_t kColumns = 384;  // positions of a tile
constexpr int64_t kMinColumns = 96;
constexpr int64_t kGatheredColumns = kMaxKernelColumns;  // the matrix product reads them where they lie
constexpr int64_t kFilters = 192;                        // filters of a tile
constexpr int64_t kMinFilters = 48;
constexpr int64_t kRowMultiple = 48;  // of the kernel's rows
constexpr int64_t kWantedTiles = 16;
constexpr int64_t kChunkElements = int64_t{1} << 20;  // of the copies of images worked on at a time, one at least

struct Tiles {
  int64_t columns, filters;
  int64_t column_count, filter_count;
};

// `positions` of one image in tiles. Depends on the shapes alone, never on the number of threads.
Tiles ChooseTiles(const ConvPlan& plan, int64_t positions, int64_t images, bool scattered) {
  Tiles t;
  const int64_t others = images * plan.groups;
  const int64_t wanted = CeilDiv(kWantedTiles, others);
  const int64_t columns = scattered ? std::clamp(CeilDiv(positions, wanted), kMinColumns, kColumns) : kGatheredColumns;
  t.columns = TileSize(positions, columns, kMaxKernelColumns);
  t.column_count = CeilDiv(positions, t.columns);
  const int64_t left = CeilDiv(wanted, t.column_count);
  t.filters =
      TileSize(plan.out_channels, std::clamp(CeilDiv(plan.out_channels, left), kMinFilters, kFilters), kRowMultiple);
  t.filter_count = CeilDiv(plan.out_channels, t.filters);
  return t;
}

// What all tiles of one Conv share.
struct ShiftConv {
  const ConvPlan& plan;
  const PhasedPlane& copy;
  std::vector<int64_t> offsets;  // of the taps of all input channels of a group, in the order of the weight
  std::shared_ptr<const ConvWeights> weights;
  const float* w;
  const float* bias;
  const Tail& tail;
  Tiles tiles;
};

// Filters [filter, filter + rows) of one image and group, over a tile's positions or outputs [begin, end).
struct Tile {
  int64_t image_group;  // n * groups + g
  int64_t filter, rows;
  int64_t begin, end;
  const float* copies;  // of the group's channels
  float* space;
};

// Sums at flat positions, read where they lie, of which the outputs are then taken.
int64_t ScatteredSpace(const Tiles& tiles) {
  return tiles.filters * CeilDiv(tiles.columns, kMaxKernelColumns) * kMaxKernelColumns;
}

void RunScattered(const ShiftConv& conv, const Tile& tile, float* y) {
  const ConvPlan& plan = conv.plan;
  const int64_t group = tile.image_group % plan.groups;
  const int64_t stride = ScatteredSpace(conv.tiles) / conv.tiles.filters;
  const float* bias = conv.bias == nullptr ? nullptr : conv.bias + group * plan.out_channels + tile.filter;
  for (int64_t m = 0; m < tile.rows && bias != nullptr; ++m) std::fill_n(tile.space + m * stride, stride, bias[m]);
  ScatteredTile({tile.rows, tile.end - tile.begin, plan.reduction()}, (*conv.weights)[static_cast<size_t>(group)],
                tile.filter, tile.copies + tile.begin, conv.offsets.data(), tile.space, stride, bias != nullptr);
  for (int64_t m = 0; m < tile.rows; ++m) {
    const int64_t plane = (tile.image_group * plan.out_channels + tile.filter + m) * plan.out_plane;
    const IndexRange made = conv.copy.TakeOutputs(tile.space + m * stride, tile.begin, tile.end, y + plane);
    if (conv.tail && made.begin >= 0) conv.tail(y + plane + made.begin, plane + made.begin, made.end - made.begin);
  }
}

// Windows of the tile's outputs are gathered from the copy into a matrix: where rows of outputs are short, less is made
// in vain.
constexpr int64_t kShortRun = 8;

int64_t GatheredSpace(const ConvPlan& plan, const Tiles& tiles) { return plan.reduction() * tiles.columns + kShortRun; }

void Gather(const ShiftConv& conv, const Tile& tile) {
  const auto runs = conv.copy.RunsOfOutputs(tile.begin, tile.end);
  const bool all_short = std::all_of(runs.begin(), runs.end(), [](const auto& r) { return r.count <= kShortRun; });
  float* out = tile.space;
  for (int64_t offset : conv.offsets) {
    const float* from = tile.copies + offset;
    for (const PhasedPlane::Run& run : runs) {
      if (all_short) {  // a constant size spares the call; what is too much is overwritten by the next
        std::memcpy(out, from + run.position, kShortRun * sizeof(float));
      } else {
        std::copy_n(from + run.position, run.count, out);
      }
      out += run.count;
    }
  }
}

void RunGathered(const ShiftConv& conv, const Tile& tile, float* y) {
  const ConvPlan& plan = conv.plan;
  const int64_t group = tile.image_group % plan.groups, filter = group * plan.out_channels + tile.filter;
  const int64_t columns = tile.end - tile.begin, k = plan.reduction();
  Gather(conv, tile);
  float* out = y + (tile.image_group * plan.out_channels + tile.filter) * plan.out_plane + tile.begin;
  for (int64_t m = 0; m < tile.rows && conv.bias != nullptr; ++m) {
    std::fill_n(out + m * plan.out_plane, columns, conv.bias[filter + m]);
  }
  GemmTile<float>({tile.rows, columns, k}, {{conv.w + filter * k, k},
                                            {tile.space, columns},
                                            out,
                                            plan.out_plane,
                                            conv.bias != nullptr,
                                            &(*conv.weights)[static_cast<size_t>(group)],
                                            tile.filter});
  for (int64_t m = 0; m < tile.rows && conv.tail; ++m) {
    conv.tail(out + m * plan.out_plane, out + m * plan.out_plane - y, columns);
  }
}

// Whether the sums made in vain cost less than gathering windows would: the kernel does some 50 multiply-adds in the
// time that a run takes to be copied, and 16 positions at a time.
bool SuitsScattered(const ConvPlan& plan, const PhasedPlane& copy) {
  const auto strips = [](int64_t n) { return CeilDiv(n, 16); };
  const int64_t in_vain = 16 * (strips(copy.positions()) - strips(plan.out_plane));
  return in_vain * plan.out_channels <= 50 * (plan.out_plane / plan.axes[2].out) + 3 * plan.out_plane;
}

}  // namespace

bool SuitsConvByShift(const ConvPlan& plan) {
  return plan.out_plane > 0 && plan.batch > 0 && PhasedPlane(plan.axes).is_modest();
}

void ConvByShift(const KernelContext& context, const ConvPlan& plan, const float* x, const float* w, const float* bias,
                 const Tail& tail, float* y) {
  const PhasedPlane copy(plan.axes);
  const bool scattered = SuitsScattered(plan, copy);
  const int64_t channels = plan.groups * plan.in_channels, image = channels * copy.elements();
  const int64_t images = std::clamp<int64_t>(kChunkElements / std::max<int64_t>(image, 1), 1, plan.batch);
  const int64_t positions = scattered ? copy.positions() : plan.out_plane;
  const Tiles tiles = ChooseTiles(plan, positions, images, scattered);
  ShiftConv conv = {plan, copy, {}, PackConvWeights(context, plan, w), w, bias, tail, tiles};
  for (int64_t c = 0; c < plan.in_channels; ++c) {
    for (int64_t offset : copy.tap_offsets()) conv.offsets.push_back(c * copy.elements() + offset);
  }
  // Strips are read whole, past the last position.
  const auto buffer = context.Scratch((images * image + kMaxKernelColumns) * static_cast<int64_t>(sizeof(float)));
  auto* copies = reinterpret_cast<float*>(buffer->data());
  std::fill_n(copies + images * image, kMaxKernelColumns, 0.0F);
  ScratchPool scratch(
      context, (scattered ? ScatteredSpace(tiles) : GatheredSpace(plan, tiles)) * static_cast<int64_t>(sizeof(float)));
  for (int64_t first = 0; first < plan.batch; first += images) {
    const int64_t count = std::min(images, plan.batch - first);
    ParallelFor(count * channels, [&](int64_t c) {
      copy.Copy(x + (first * channels + c) * plan.in_plane, 0, copies + c * copy.elements());
    });
    ParallelFor(count * plan.groups * tiles.column_count * tiles.filter_count, [&](int64_t item) {
      const int64_t filter = item % tiles.filter_count * tiles.filters;
      const int64_t begin = item / tiles.filter_count % tiles.column_count * tiles.columns;
      const int64_t group = item / tiles.filter_count / tiles.column_count;
      auto lease = scratch.Borrow();
      const Tile tile = {first * plan.groups + group,
                         filter,
                         std::min(tiles.filters, plan.out_channels - filter),
                         begin,
                         std::min(begin + tiles.columns, positions),
                         copies + group * plan.in_channels * copy.elements(),
                         lease.as<float>()};
      scattered ? RunScattered(conv, tile, y) : RunGathered(conv, tile, y);
    });
  }
}

}  // namespace quant
