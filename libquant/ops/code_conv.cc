// By integer products with the windows as a matrix; depthwise by conv_depthwise.cc in float32, which holds its sums
// exactly.
#include "libquant/ops/code_conv.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

constexpr int64_t kPanelBytes = 256 * 1024;
constexpr int64_t kMaxColumns = 256, kMinColumns = 64;
constexpr int64_t kFilterTile = 256, kMinFilterTile = 32;
// With fewer tiles than this, filters are split further so that threads have work.
constexpr int64_t kWantedTiles = 8;
constexpr int64_t kPiece = 32768;
// Taps whose products of differences of codes (up to 255 * 255) add up to less than 2^24, so that float32 holds them.
constexpr int64_t kExactTaps = (int64_t{1} << 24) / (255 * 255);

// How the product of filters and windows is cut: pieces of output positions, and those into filters. Depends on the
// shapes alone.
struct ConvTiles {
  int64_t columns, column_tiles, pieces;  // a piece: some positions of one image and group
  int64_t filters, filter_tiles;
};

ConvTiles ChooseTiles(const ConvPlan& plan) {
  ConvTiles t;
  t.columns = TileSize(plan.out_plane, std::clamp(kPanelBytes / plan.reduction(), kMinColumns, kMaxColumns));
  t.column_tiles = CeilDiv(plan.out_plane, t.columns);
  t.pieces = plan.batch * plan.groups * t.column_tiles;
  const int64_t even = CeilDiv(plan.out_channels, CeilDiv(kWantedTiles, std::max<int64_t>(t.pieces, 1)));
  t.filters = TileSize(plan.out_channels, std::clamp(even, kMinFilterTile, kFilterTile));
  t.filter_tiles = CeilDiv(plan.out_channels, t.filters);
  return t;
}

void ConvByProduct(const KernelContext& context, const CodeConv& conv, const ConvFinish& finish) {
  const ConvPlan& plan = conv.plan;
  const ConvTiles tiles = ChooseTiles(plan);
  const int64_t k = plan.reduction(), panel_size = k * tiles.columns;
  ScratchPool sums(context, tiles.filters * tiles.columns * static_cast<int64_t>(sizeof(int32_t)));
  const auto begin_of = [&](int64_t piece) { return piece % tiles.column_tiles * tiles.columns; };
  const auto columns_of = [&](int64_t piece) { return std::min(tiles.columns, plan.out_plane - begin_of(piece)); };
  const auto group_x = [&](int64_t piece) {
    return conv.x + piece / tiles.column_tiles * plan.in_channels * plan.in_plane;
  };
  const auto fill = [&](int64_t piece, uint8_t* panel) {
    const int64_t begin = begin_of(piece);
    FillPanel(plan, group_x(piece), begin, begin + columns_of(piece), static_cast<uint8_t>(conv.x_zero), panel);
  };
  const auto multiply = [&](int64_t piece, int64_t filter_tile, const uint8_t* windows, int64_t stride) {
    const int64_t image_group = piece / tiles.column_tiles, first = filter_tile * tiles.filters;
    auto lease = sums.Borrow();
    const ConvTile tile = {image_group / plan.groups,
                           image_group % plan.groups * plan.out_channels + first,
                           std::min(tiles.filters, plan.out_channels - first),
                           begin_of(piece),
                           columns_of(piece),
                           lease.as<int32_t>()};
    IntegerTile({tile.filters, tile.columns, k},
                {conv.w + tile.filter * k, k, false, conv.w_signed, conv.w_zeros.data() + tile.filter, 1},
                {windows, stride, false, conv.x_signed, &conv.x_zero, 0}, tile.sums, tile.columns);
    finish(tile);
  };
  const int64_t all = tiles.pieces * tiles.filter_tiles;
  if (plan.is_pointwise()) {
    ParallelFor(all, [&](int64_t item) {
      const int64_t piece = item / tiles.filter_tiles;
      multiply(piece, item % tiles.filter_tiles, group_x(piece) + begin_of(piece), plan.in_plane);
    });
  } else if (tiles.pieces < kWantedTiles) {  // filters are split: windows are copied once for all of them
    const auto panels = context.Scratch(tiles.pieces * panel_size);
    const auto panel_of = [&](int64_t piece) {
      return reinterpret_cast<uint8_t*>(panels->data()) + piece * panel_size;
    };
    ParallelFor(tiles.pieces, [&](int64_t piece) { fill(piece, panel_of(piece)); });
    ParallelFor(all, [&](int64_t item) {
      const int64_t piece = item / tiles.filter_tiles;
      multiply(piece, item % tiles.filter_tiles, panel_of(piece), columns_of(piece));
    });
  } else {
    ScratchPool panels(context, panel_size);
    ParallelFor(tiles.pieces, [&](int64_t piece) {
      auto panel = panels.Borrow();
      fill(piece, panel.as<uint8_t>());
      for (int64_t f = 0; f < tiles.filter_tiles; ++f) multiply(piece, f, panel.as<uint8_t>(), columns_of(piece));
    });
  }
}

// out[i] = code - zero for codes of either type.
void Differences(const uint8_t* codes, int64_t count, bool is_signed, int32_t zero, float* out) {
  const int32_t flip = is_signed ? 0x80 : 0, shift = zero + flip;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>((codes[i] ^ flip) - shift);
}

void ConvDepthwise(const KernelContext& context, const CodeConv& conv, const ConvFinish& finish) {
  const ConvPlan& plan = conv.plan;
  const int64_t x_size = plan.batch * plan.groups * plan.in_plane, filters = plan.groups * plan.out_channels;
  const int64_t planes = plan.batch * filters;
  const auto floats = [&](int64_t count) { return context.Scratch(count * static_cast<int64_t>(sizeof(float))); };
  const auto x_buffer = floats(x_size), w_buffer = floats(filters * plan.taps),
             y_buffer = floats(planes * plan.out_plane);
  float* x = reinterpret_cast<float*>(x_buffer->data());
  float* w = reinterpret_cast<float*>(w_buffer->data());
  float* y = reinterpret_cast<float*>(y_buffer->data());
  ParallelFor(CeilDiv(x_size, kPiece), [&](int64_t piece) {
    const int64_t begin = piece * kPiece;
    Differences(conv.x + begin, std::min(kPiece, x_size - begin), conv.x_signed, conv.x_zero, x + begin);
  });
  for (int64_t m = 0; m < filters; ++m) {
    Differences(conv.w + m * plan.taps, plan.taps, conv.w_signed, conv.w_zeros[static_cast<size_t>(m)],
                w + m * plan.taps);
  }
  DepthwiseConv<float>(context, plan, x, w, nullptr, Tail(), y);
  ScratchPool sums(context, plan.out_plane * static_cast<int64_t>(sizeof(int32_t)));
  const int64_t per_piece = std::max<int64_t>(1, kPiece / plan.out_plane);
  ParallelFor(CeilDiv(planes, per_piece), [&](int64_t piece) {
    auto lease = sums.Borrow();
    for (int64_t p = piece * per_piece; p < std::min(planes, (piece + 1) * per_piece); ++p) {
      const ConvTile tile = {p / filters, p % filters, 1, 0, plan.out_plane, lease.as<int32_t>()};
      const float* from = y + p * plan.out_plane;
      std::transform(from, from + plan.out_plane, tile.sums, [](float v) { return static_cast<int32_t>(v); });
      finish(tile);
    }
  });
}

}  // namespace

Status CheckPerFilter(const Tensor& tensor, const char* what, int64_t filters) {
  if (tensor.size() == 1 || tensor.dims() == Dims{filters}) return OkStatus();
  return DataError("{} of {} for {} filters", what, ToString(tensor.dims()), filters);
}

StatusOr<CodeConv> PlanCodeConv(const KernelContext& context, const CodeProductInputs& in, const Tensor* bias) {
  RETURN_IF_ERROR(CheckCodes(*in.a, in.a_zero));
  RETURN_IF_ERROR(CheckCodes(*in.b, in.b_zero));
  CodeConv conv;
  ASSIGN_OR_RETURN(conv.plan, PlanConv(context, *in.a, *in.b, bias));
  const int64_t filters = conv.plan.groups * conv.plan.out_channels;
  conv.x = in.a->data<uint8_t>().data();
  conv.w = in.b->data<uint8_t>().data();
  conv.x_signed = in.a->dtype() == DType::kInt8;
  conv.w_signed = in.b->dtype() == DType::kInt8;
  if (in.a_zero != nullptr) {
    if (in.a_zero->size() != 1) return DataError("an x_zero_point of {}", ToString(in.a_zero->dims()));
    LoadCodes(*in.a_zero, 0, 1, &conv.x_zero);
  }
  conv.w_zeros.assign(static_cast<size_t>(filters), 0);
  if (in.b_zero == nullptr) return conv;
  RETURN_IF_ERROR(CheckPerFilter(*in.b_zero, "w_zero_point", filters));
  LoadCodes(*in.b_zero, 0, in.b_zero->size(), conv.w_zeros.data());
  if (in.b_zero->size() == 1) std::fill(conv.w_zeros.begin(), conv.w_zeros.end(), conv.w_zeros[0]);
  return conv;
}

void RunCodeConv(const KernelContext& context, const CodeConv& conv, const ConvFinish& finish) {
  if (conv.plan.is_depthwise() && conv.plan.taps <= kExactTaps) {
    ConvDepthwise(context, conv, finish);
  } else {
    ConvByProduct(context, conv, finish);
  }
}

}  // namespace quant
