// Convolutions of 8-bit codes (code_conv.h):
//   ConvInteger    the sums, in int32
//   QLinearConv    the sums plus an int32 bias, requantized (requantize.h) with a scale for all filters or each
#include <algorithm>

#include "libquant/ops/code_conv.h"
#include "libquant/ops/requantize.h"

namespace quant {
namespace {

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
