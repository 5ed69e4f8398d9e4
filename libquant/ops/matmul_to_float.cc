// Products of quantized matrices as floats, in com.microsoft:
//   MatMulIntegerToFloat     y = sum of (a - a_zero) * (b - b_zero) * (a_scale * b_scale) + bias
//   DynamicQuantizeMatMul    the same for an a of floats, quantized to uint8 first (dynamic_quantize.h)
// b_scale and b_zero_point are one for all or one for each column; bias is [columns].
#include <algorithm>

#include "libquant/ops/code_product.h"
#include "libquant/ops/dynamic_quantize.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/qlinear.h"

namespace quant {
namespace {

struct FloatProduct {
  CodeProductInputs codes;
  float a_scale = 1;
  const Tensor* b_scale = nullptr;
  const Tensor* bias = nullptr;  // or null
  DType dtype = DType::kFloat;
};

// a_scale * b_scale for all columns of b's matrices.
StatusOr<std::vector<float>> ColumnScales(const FloatProduct& in) {
  ASSIGN_OR_RETURN(const auto index, ColumnParameters(*in.b_scale, in.codes.b->dims()));
  std::vector<float> values(static_cast<size_t>(in.b_scale->size())), out(index.size());
  RETURN_IF_ERROR(ConvertFloats(*in.b_scale, values.data()));
  std::transform(index.begin(), index.end(), out.begin(),
                 [&](int64_t i) { return in.a_scale * values[static_cast<size_t>(i)]; });
  return out;
}

Status Multiply(KernelContext& context, const FloatProduct& in) {
  ASSIGN_OR_RETURN(const CodeProduct product, PlanCodeProduct(in.codes));
  const int64_t n = product.plan.n;
  if (in.bias != nullptr && in.bias->dims() != Dims{n}) {
    return DataError("a bias of {} for {} columns", ToString(in.bias->dims()), n);
  }
  ASSIGN_OR_RETURN(const auto bias, FloatInput<float>::Of(context, in.bias));
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, 0, in.dtype, product.plan.out_dims));
  if (y.size() == 0) return OkStatus();
  std::vector<float> scales;
  if (product.plan.k > 0) {
    ASSIGN_OR_RETURN(scales, ColumnScales(in));
  }
  RunCodeProduct(context, product, [&](const SumTile& tile) {
    const float* columns = scales.empty() ? nullptr : scales.data() + product.ColumnOf(tile);
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int32_t* sums = tile.row_at(i);
      float* out = y.data() + product.OutputOf(tile, i);
      for (int64_t j = 0; j < tile.cols; ++j)
        out[j] = columns == nullptr ? 0 : static_cast<float>(sums[j]) * columns[j];
      for (int64_t j = 0; bias.data() != nullptr && j < tile.cols; ++j) out[j] += bias.data()[tile.col + j];
    }
  });
  return y.Finish();
}

Status EvalMatMulIntegerToFloat(KernelContext& context) {
  FloatProduct in;
  in.codes = {&context.in(0), &context.in(1), context.input(4), context.input(5)};
  ASSIGN_OR_RETURN(in.a_scale, ReadScale(context.in(2)));
  in.b_scale = &context.in(3);
  in.bias = context.input(6);
  in.dtype = context.in(2).dtype();
  return Multiply(context, in);
}

Status EvalDynamicQuantizeMatMul(KernelContext& context) {
  const Tensor& a = context.in(0);
  if (a.dtype() != DType::kFloat) return Unsupported("quantizing {} is not supported", NameOf(a.dtype()));
  const CodeScale scale = DynamicScale(a.data<float>().data(), a.size());
  const std::shared_ptr<Buffer> codes = context.Scratch(a.size());
  QuantizeDynamic(a.data<float>().data(), a.size(), scale, reinterpret_cast<uint8_t*>(codes->data()));
  const Tensor quantized = Tensor::FromBuffer(DType::kUint8, a.dims(), codes);
  const Tensor zero = Tensor::Scalar(static_cast<uint8_t>(scale.zero_point));
  return Multiply(context, {{&quantized, &context.in(1), &zero, context.input(3)},
                            scale.scale,
                            &context.in(2),
                            context.input(4),
                            DType::kFloat});
}

void InferProduct(InferContext& context, size_t like) {
  if (context.inputs.size() <= like || context.outputs.empty()) return;
  context.outputs[0].dtype = context.inputs[like].dtype;
  const auto &a = context.inputs[0].shape, &b = context.inputs[1].shape;
  // The common form alone: others get a type.
  if (!a || !b || a->empty() || b->size() != 2) return;
  Shape shape = *a;
  shape.back() = b->back();
  context.outputs[0].shape = std::move(shape);
}

}  // namespace

const OpDef& MatMulIntegerToFloatOp() {
  static const SchemaRow schema = {.doc = "Matrix product of quantized matrices as floats, with a bias",
                                   .inputs = {{"A", "T1"},
                                              {"B", "T2"},
                                              {"a_scale", "T3"},
                                              {"b_scale", "T3"},
                                              {"a_zero_point", "T1", true},
                                              {"b_zero_point", "T2", true},
                                              {"bias", "T3", true}},
                                   .outputs = {{"Y", "T3"}},
                                   .types = {{"T1", {"tensor(int8)", "tensor(uint8)"}},
                                             {"T2", {"tensor(int8)", "tensor(uint8)"}},
                                             {"T3", {"tensor(float)", "tensor(float16)"}}},
                                   .infer = [](InferContext& c) { InferProduct(c, 2); }};
  static const OpDef def = QLinear("MatMulIntegerToFloat", 4, EvalMatMulIntegerToFloat, schema,
                                   "Matrix product of quantized matrices as floats");
  return def;
}

const OpDef& DynamicQuantizeMatMulOp() {
  static const SchemaRow schema = {
      .doc = "Matrix product of a matrix that is quantized over its own range and a quantized one, as floats",
      .inputs = {{"A", "T1"}, {"B", "T2"}, {"b_scale", "T1"}, {"b_zero_point", "T2", true}, {"bias", "T1", true}},
      .outputs = {{"Y", "T1"}},
      .types = {{"T1", {"tensor(float)"}}, {"T2", {"tensor(int8)", "tensor(uint8)"}}},
      .infer = [](InferContext& c) { InferProduct(c, 0); }};
  static const OpDef def = QLinear("DynamicQuantizeMatMul", 3, EvalDynamicQuantizeMatMul, schema,
                                   "Matrix product with a quantized matrix, the other quantized on the way");
  return def;
}

}  // namespace quant
