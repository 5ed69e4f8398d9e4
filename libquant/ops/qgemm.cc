// com.microsoft QGemm: y = alpha * a_scale * b_scale * (sum of (a - a_zero) * (b - b_zero) + c), as float32 or, with an
// output scale, requantized (requantize.h). a and b may be transposed; c is int32 and broadcast.
#include <algorithm>

#include "libquant/ops/code_product.h"
#include "libquant/ops/gemm_node.h"
#include "libquant/ops/qlinear.h"

namespace quant {
namespace {

enum Input { kA, kAScale, kAZero, kB, kBScale, kBZero, kC, kYScale, kYZero };

struct QGemmPlan {
  GemmNode node;
  std::vector<float> scales;  // of the sums in each column
  int32_t a_zero = 0;
  std::vector<int32_t> b_zeros;
};

StatusOr<QGemmPlan> PlanQGemm(const KernelContext& context) {
  const Tensor &a = context.in(kA), &b = context.in(kB), &b_scale = context.in(kBScale), &b_zero = context.in(kBZero);
  const Tensor* c = context.input(kC);
  RETURN_IF_ERROR(CheckCodes(a, &context.in(kAZero)));
  RETURN_IF_ERROR(CheckCodes(b, &b_zero));
  if (c != nullptr && c->dtype() != DType::kInt32) return DataError("C of {}, not int32", NameOf(c->dtype()));
  QGemmPlan plan;
  ASSIGN_OR_RETURN(plan.node, ReadGemm(context.attributes(), a.dims(), b.dims(), c));
  ASSIGN_OR_RETURN(const CodeScale a_scale, ReadCodeScale(context.in(kAScale), context.in(kAZero)));
  plan.a_zero = a_scale.zero_point;
  const int64_t n = plan.node.size.n;
  for (const Tensor* t : {&b_scale, &b_zero}) {
    if (t->size() != 1 && t->dims() != Dims{n}) {
      return DataError("a scale and zero point of {} and {} for {} columns", ToString(b_scale.dims()),
                       ToString(b_zero.dims()), n);
    }
  }
  ASSIGN_OR_RETURN(const QuantParameters scales, ReadQuantParameters(b_scale, nullptr));
  const auto columns = static_cast<size_t>(n);
  plan.b_zeros.resize(static_cast<size_t>(b_zero.size()));
  LoadCodes(b_zero, 0, b_zero.size(), plan.b_zeros.data());
  if (b_zero.size() == 1) plan.b_zeros.assign(columns, int32_t{plan.b_zeros[0]});
  for (size_t j = 0; j < columns; ++j) {
    plan.scales.push_back(plan.node.alpha * a_scale.scale * scales.scales[scales.scales.size() == 1 ? 0 : j]);
  }
  return plan;
}

void AddMatrix(const GemmNode& node, const int32_t* c, const SumTile& tile) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    const int32_t* from = c + (tile.row + i) * node.c_row + tile.col * node.c_col;
    int32_t* sums = tile.row_at(i);
    for (int64_t j = 0; j < tile.cols; ++j) AddToSums(from[j * node.c_col], 1, sums + j);
  }
}

Status EvalQGemm(KernelContext& context) {
  RETURN_IF_ERROR(RequireInputs(context, {kB, kBScale, kBZero}));
  ASSIGN_OR_RETURN(QGemmPlan plan, PlanQGemm(context));
  const Tensor *c = context.input(kC), *y_scale = context.input(kYScale), *y_zero = context.input(kYZero);
  if ((y_scale == nullptr) != (y_zero == nullptr)) return DataError("only one of y_scale and y_zero_point is there");
  CodeScale scale;
  if (y_scale != nullptr) {
    ASSIGN_OR_RETURN(scale, ReadCodeScale(*y_scale, *y_zero));
    for (float& s : plan.scales) s /= scale.scale;
  }
  const GemmSize& size = plan.node.size;
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, y_scale != nullptr ? scale.dtype : DType::kFloat, {size.m, size.n}));
  const auto matrix = [&](int input, bool transposed, const int32_t* zeros, int64_t step) {
    const Tensor& t = context.in(input);
    return CodeMatrix{t.data<uint8_t>().data(), t.dims()[1], transposed, t.dtype() == DType::kInt8, zeros, step};
  };
  const CodeOperands operands = {matrix(kA, plan.node.trans_a, &plan.a_zero, 0),
                                 matrix(kB, plan.node.trans_b, plan.b_zeros.data(), 1)};
  IntegerGemmBatch(
      context, size, 1, [&](int64_t) { return operands; },
      [&](const SumTile& tile) {
        if (c != nullptr) AddMatrix(plan.node, c->data<int32_t>().data(), tile);
        const float* scales = plan.scales.data() + tile.col;
        for (int64_t i = 0; i < tile.rows; ++i) {
          const int64_t at = (tile.row + i) * size.n + tile.col;
          const int32_t* sums = tile.row_at(i);
          if (y_scale != nullptr) {
            RequantizeRow(sums, tile.cols, scales, 1, scale, y->mutable_data<uint8_t>().data() + at);
          } else {
            float* out = y->mutable_data<float>().data() + at;
            for (int64_t j = 0; j < tile.cols; ++j) out[j] = static_cast<float>(sums[j]) * scales[j];
          }
        }
      });
  return OkStatus();
}

void InferQGemm(InferContext& context) {
  if (context.inputs.size() <= kB || context.outputs.empty()) return;
  TypeShape& y = context.outputs[0];
  const bool quantized = context.inputs.size() > kYZero && context.inputs[kYZero].dtype != DType::kUndefined;
  y.dtype = quantized ? context.inputs[kYZero].dtype : DType::kFloat;
  const auto &a = context.inputs[kA].shape, &b = context.inputs[kB].shape;
  if (!a || !b || a->size() != 2 || b->size() != 2) return;
  y.shape = Shape{(*a)[context.attributes.Int("transA", 0) != 0 ? 1 : 0],
                  (*b)[context.attributes.Int("transB", 0) != 0 ? 0 : 1]};
}

}  // namespace

const OpDef& QGemmOp() {
  static const SchemaRow schema = {
      .doc = "Matrix product of quantized matrices with an added int32 matrix, quantized or as floats",
      .inputs = {{"A", "TA"},
                 {"a_scale", "T"},
                 {"a_zero_point", "TA"},
                 {"B", "TB"},
                 {"b_scale", "T"},
                 {"b_zero_point", "TB"},
                 {"C", "TC", true},
                 {"y_scale", "T", true},
                 {"y_zero_point", "TYZ", true}},
      .outputs = {{"Y", "TY"}},
      .attributes = {{"transA", AttributeKind::kInt},
                     {"transB", AttributeKind::kInt},
                     {"alpha", AttributeKind::kFloat}},
      .types = {{"T", {"tensor(float)"}},
                {"TA", {"tensor(uint8)", "tensor(int8)"}},
                {"TB", {"tensor(uint8)", "tensor(int8)"}},
                {"TC", {"tensor(int32)"}},
                {"TYZ", {"tensor(uint8)", "tensor(int8)"}},
                {"TY", {"tensor(float)", "tensor(uint8)", "tensor(int8)"}}},
      .infer = InferQGemm};
  static const OpDef def = QLinear("QGemm", 6, EvalQGemm, schema, "Matrix product of quantized matrices");
  return def;
}

}  // namespace quant
