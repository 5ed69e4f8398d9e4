// Products of matrices of 8-bit codes:
//   MatMulInteger    y = sum of (a - a_zero) * (b - b_zero), in int32
//   QLinearMatMul    the same, requantized (requantize.h)
#include <algorithm>

#include "libquant/ops/code_product.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/requantize.h"

namespace quant {
namespace {

Status EvalMatMulInteger(KernelContext& context) {
  ASSIGN_OR_RETURN(const CodeProduct product,
                   PlanCodeProduct({&context.in(0), &context.in(1), context.input(2), context.input(3)}));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DType::kInt32, product.plan.out_dims));
  int32_t* out = y->mutable_data<int32_t>().data();
  RunCodeProduct(context, product, [&](const SumTile& tile) {
    for (int64_t i = 0; i < tile.rows; ++i) std::copy_n(tile.row_at(i), tile.cols, out + product.OutputOf(tile, i));
  });
  return OkStatus();
}

enum QLinearInput { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };

// Scales of all rows (or columns), as float32.
StatusOr<std::vector<float>> ReadScales(const Tensor& scale, const Dims& operand, bool of_rows) {
  ASSIGN_OR_RETURN(const auto index, of_rows ? RowParameters(scale, operand) : ColumnParameters(scale, operand));
  std::vector<float> values(static_cast<size_t>(scale.size())), out(index.size());
  RETURN_IF_ERROR(ConvertFloats(scale, values.data()));
  std::transform(index.begin(), index.end(), out.begin(), [&](int64_t i) { return values[static_cast<size_t>(i)]; });
  return out;
}

Status EvalQLinearMatMul(KernelContext& context) {
  const Tensor &a = context.in(kA), &b = context.in(kB);
  ASSIGN_OR_RETURN(const CodeProduct product, PlanCodeProduct({&a, &b, &context.in(kAZero), &context.in(kBZero)}));
  ASSIGN_OR_RETURN(const CodeScale y_scale, ReadCodeScale(context.in(kYScale), context.in(kYZero)));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, y_scale.dtype, product.plan.out_dims));
  uint8_t* out = y->mutable_data<uint8_t>().data();
  if (a.size() == 0 || b.size() == 0) {  // sums over nothing
    std::fill_n(out, y->size(), static_cast<uint8_t>(y_scale.zero_point));
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const auto a_scales, ReadScales(context.in(kAScale), a.dims(), true));
  ASSIGN_OR_RETURN(const auto b_scales, ReadScales(context.in(kBScale), b.dims(), false));
  RunCodeProduct(context, product, [&](const SumTile& tile) {
    std::vector<float> scales(static_cast<size_t>(tile.cols));
    const float* columns = b_scales.data() + product.ColumnOf(tile);
    const float* rows = a_scales.data() + product.RowOf(tile);
    for (int64_t i = 0; i < tile.rows; ++i) {
      if (i == 0 || rows[i] != rows[i - 1]) {
        std::transform(columns, columns + tile.cols, scales.begin(),
                       [&](float column) { return rows[i] * column / y_scale.scale; });
      }
      RequantizeRow(tile.row_at(i), tile.cols, scales.data(), 1, y_scale, out + product.OutputOf(tile, i));
    }
  });
  return OkStatus();
}

}  // namespace

const OpDef& MatMulIntegerOp() {
  static const OpDef def = {
      .name = "MatMulInteger",
      .since = {10},
      .min_inputs = 2,
      .eval = EvalMatMulInteger,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Matrix product of 8-bit codes in int32",
  };
  return def;
}

const OpDef& QLinearMatMulOp() {
  static const OpDef def = {
      .name = "QLinearMatMul",
      .since = {10, 21},
      .min_inputs = 8,
      .eval = EvalQLinearMatMul,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Matrix product of 8-bit codes, requantized",
  };
  return def;
}

}  // namespace quant
