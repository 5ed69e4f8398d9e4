// What ConvInteger and QLinearConv share: sums over the windows of 8-bit codes, exact in int32,
//   sum of (x - x_zero) * (w - w_zero)        with a w_zero for all filters or each; padding holds x_zero
#pragma once

#include <functional>
#include <vector>

#include "libquant/ops/code_product.h"
#include "libquant/ops/conv_plan.h"

namespace quant {

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

// x and w are a and b of the inputs. DataError where they, a bias or the attributes don't fit; Unsupported for codes
// not of 8 bits.
StatusOr<CodeConv> PlanCodeConv(const KernelContext& context, const CodeProductInputs& in, const Tensor* bias);

// Hands the sums to `finish`, tile by tile, from any thread.
void RunCodeConv(const KernelContext& context, const CodeConv& conv, const ConvFinish& finish);

// DataError unless the tensor has one scale or zero point for all filters, or one for each.
Status CheckPerFilter(const Tensor& tensor, const char* what, int64_t filters);

}  // namespace quant
