// Convolutions of 8-bit codes, exact in int32:
//   ConvInteger    y = sum of (x - x_zero) * (w - w_zero) over the window; padding holds x_zero
//   QLinearConv    the same plus an int32 bias, requantized (requantize.h) with a scale for all or each filter
// By integer products with the windows as a matrix; depthwise by conv_depthwise.cc in float32, which holds its sums
// exactly.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/code_product.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/requantize.h"
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

struct CodeConv {
  ConvPlan plan;
  const uint8_t* x = nullptr;
  const uint8_t* w = nullptr;
  bool x_signed = false, w_signed = false;
  int32_t x_zero = 0;
  std::vector<int32_t> w_zeros;  // of all filters
};

// Sums of filters [filter, filter + filters) of one image at output positions [begin, begin + columns).
struct ConvTile {
  int64_t image = 0, filter = 0, filters = 0;
  int64_t begin = 0, columns = 0;
  int32_t* sums = nullptr;

  int32_t* row_at(int64_t i) const { return sums + i * columns; }
  int64_t OutputOf(const ConvPlan& plan, int64_t i) const {
    return (image * plan.groups * plan.out_channels + filter + i) * plan.out_plane + begin;
  }
};
using ConvFinish = std::function<void(const ConvTile&)>;

// A scale or zero point for each filter: the tensor's only element, or its own.
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

void ConvByProduct(const KernelContext& context, const CodeConv& conv, const ConvFinish& finish) {
  const ConvPlan& plan = conv.plan;
  const int64_t k = plan.reduction();
  const int64_t columns = TileSize(plan.out_plane, std::clamp(kPanelBytes / k, kMinColumns, kMaxColumns));
  const int64_t column_tiles = CeilDiv(plan.out_plane, columns);
  const int64_t others = std::max<int64_t>(plan.batch * plan.groups * column_tiles, 1);
  const int64_t even = CeilDiv(plan.out_channels, CeilDiv(kWantedTiles, others));
  const int64_t filters = TileSize(plan.out_channels, std::clamp(even, kMinFilterTile, kFilterTile));
  const int64_t filter_tiles = CeilDiv(plan.out_channels, filters);
  const bool direct = plan.is_pointwise();
  ScratchPool panels(context, direct ? 0 : k * columns);
  ScratchPool sums(context, filters * columns * static_cast<int64_t>(sizeof(int32_t)));
  ParallelFor(plan.batch * plan.groups * column_tiles * filter_tiles, [&](int64_t item) {
    const int64_t first = item % filter_tiles * filters;
    const int64_t image_group = item / filter_tiles / column_tiles;  // image * groups + group
    ConvTile tile;
    tile.image = image_group / plan.groups;
    tile.filter = image_group % plan.groups * plan.out_channels + first;
    tile.filters = std::min(filters, plan.out_channels - first);
    tile.begin = item / filter_tiles % column_tiles * columns;
    tile.columns = std::min(columns, plan.out_plane - tile.begin);
    const uint8_t* x = conv.x + image_group * plan.in_channels * plan.in_plane;
    auto panel = panels.Borrow(), lease = sums.Borrow();
    tile.sums = lease.as<int32_t>();
    CodeMatrix windows = {x + tile.begin, plan.in_plane, false, conv.x_signed, &conv.x_zero, 0};
    if (!direct) {
      FillPanel(plan, x, tile.begin, tile.begin + tile.columns, static_cast<uint8_t>(conv.x_zero), panel.as<uint8_t>());
      windows.data = panel.as<uint8_t>();
      windows.stride = tile.columns;
    }
    const CodeMatrix weights = {conv.w + tile.filter * k,          k, false, conv.w_signed,
                                conv.w_zeros.data() + tile.filter, 1};
    IntegerTile({tile.filters, tile.columns, k}, weights, windows, tile.sums, tile.columns);
    finish(tile);
  });
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

void RunCodeConv(const KernelContext& context, const CodeConv& conv, const ConvFinish& finish) {
  if (conv.plan.is_depthwise() && conv.plan.taps <= kExactTaps) {
    ConvDepthwise(context, conv, finish);
  } else {
    ConvByProduct(context, conv, finish);
  }
}

Status EvalConvInteger(KernelContext& context) {
  const CodeProductInputs in = {&context.in(0), &context.in(1), context.input(2), context.input(3)};
  ASSIGN_OR_RETURN(const CodeConv conv, PlanCodeConv(context, in, nullptr));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DType::kInt32, conv.plan.out_dims));
  int32_t* out = y->mutable_data<int32_t>().data();
  RunCodeConv(context, conv, [&](const ConvTile& tile) {
    for (int64_t i = 0; i < tile.filters; ++i) {
      std::copy_n(tile.row_at(i), tile.columns, out + tile.OutputOf(conv.plan, i));
    }
  });
  return OkStatus();
}

enum QLinearInput { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias };

// x_scale * w_scale / y_scale for each filter.
StatusOr<std::vector<float>> OutputScales(const KernelContext& context, int64_t filters, float y_scale) {
  const Tensor& w_scale = context.in(kWScale);
  ASSIGN_OR_RETURN(const float x_scale, ReadScale(context.in(kXScale)));
  RETURN_IF_ERROR(CheckPerFilter(w_scale, "w_scale", filters));
  ASSIGN_OR_RETURN(const QuantParameters w, ReadQuantParameters(w_scale, nullptr));
  std::vector<float> out(static_cast<size_t>(filters));
  for (size_t m = 0; m < out.size(); ++m) out[m] = x_scale * w.scales[w.scales.size() == 1 ? 0 : m] / y_scale;
  return out;
}

Status EvalQLinearConv(KernelContext& context) {
  const Tensor* bias = context.input(kBias);
  if (bias != nullptr && bias->dtype() != DType::kInt32) return DataError("a bias of {}", NameOf(bias->dtype()));
  const CodeProductInputs in = {&context.in(kX), &context.in(kW), &context.in(kXZero), &context.in(kWZero)};
  ASSIGN_OR_RETURN(const CodeConv conv, PlanCodeConv(context, in, bias));
  ASSIGN_OR_RETURN(const CodeScale y_scale, ReadCodeScale(context.in(kYScale), context.in(kYZero)));
  ASSIGN_OR_RETURN(const auto scales, OutputScales(context, static_cast<int64_t>(conv.w_zeros.size()), y_scale.scale));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, y_scale.dtype, conv.plan.out_dims));
  uint8_t* out = y->mutable_data<uint8_t>().data();
  RunCodeConv(context, conv, [&](const ConvTile& tile) {
    for (int64_t i = 0; i < tile.filters; ++i) {
      const auto filter = static_cast<size_t>(tile.filter + i);
      int32_t* sums = tile.row_at(i);
      if (bias != nullptr) AddToSums(bias->data<int32_t>()[filter], tile.columns, sums);
      RequantizeRow(sums, tile.columns, &scales[filter], 0, y_scale, out + tile.OutputOf(conv.plan, i));
    }
  });
  return OkStatus();
}

}  // namespace

const OpDef& ConvIntegerOp() {
  static const OpDef def = {
      .name = "ConvInteger",
      .since = {10},
      .min_inputs = 2,
      .eval = EvalConvInteger,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Convolution of 8-bit codes in int32",
  };
  return def;
}

const OpDef& QLinearConvOp() {
  static const OpDef def = {
      .name = "QLinearConv",
      .since = {10},
      .min_inputs = 8,
      .eval = EvalQLinearConv,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Convolution of 8-bit codes with an int32 bias, requantized",
  };
  return def;
}

}  // namespace quant
