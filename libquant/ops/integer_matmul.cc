// DynamicQuantizeLinear and MatMulInteger: exact integer arithmetic on 8-bit codes.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/matmul.h"
#include "libquant/ops/quant_layout.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

// The range is widened to contain 0; scale = (max - min) / 255, zero point = saturate(round(-min / scale)).
Status EvalDynamicQuantizeLinear(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.dtype() != DType::kFloat) return Unsupported("quantizing {} is not supported", NameOf(x.dtype()));
  float low = 0, high = 0;
  for (float v : x.data<float>()) {
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  // A tensor of zeros has any scale.
  const float scale = high == low ? 1.0F : (high - low) / 255.0F;
  const float zero_point = std::clamp(std::rint(-low / scale), 0.0F, 255.0F);
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DType::kUint8, x.dims()));
  ASSIGN_OR_RETURN(Tensor * scale_out, context.Allocate(1, DType::kFloat, {}));
  ASSIGN_OR_RETURN(Tensor * zero_out, context.Allocate(2, DType::kUint8, {}));
  scale_out->mutable_data<float>()[0] = scale;
  // An infinite range has no zero point; NaN compares false and gives 0.
  zero_out->mutable_data<uint8_t>()[0] = static_cast<uint8_t>(zero_point >= 0 ? zero_point : 0);
  const float shift = zero_out->data<uint8_t>()[0];
  const float* in = x.data<float>().data();
  uint8_t* out = y->mutable_data<uint8_t>().data();
  for (int64_t i = 0; i < x.size(); ++i) {
    const float code = std::rint(in[i] / scale) + shift;
    out[i] = static_cast<uint8_t>(code > 0 ? (code < 255 ? code : 255.0F) : 0.0F);
  }
  return OkStatus();
}

// The zero point of each row of a (or each column of b): one for all or `count`, or of the same shape with a batch.
Status ReadZeroPoints(const Tensor* tensor, DType dtype, int64_t count, std::vector<int32_t>& out) {
  out.assign(static_cast<size_t>(count), 0);
  if (tensor == nullptr) return OkStatus();
  if (tensor->dtype() != dtype)
    return DataError("a zero point of {} for codes of {}", NameOf(tensor->dtype()), NameOf(dtype));
  if (tensor->size() == 1) {
    int32_t value;
    LoadCodes(*tensor, 0, 1, &value);
    std::fill(out.begin(), out.end(), value);
    return OkStatus();
  }
  if (tensor->size() != count)
    return DataError("zero points of {} where 1 or {} belong", ToString(tensor->dims()), count);
  LoadCodes(*tensor, 0, count, out.data());
  return OkStatus();
}

Status EvalMatMulInteger(KernelContext& context) {
  const Tensor &a = context.in(0), &b = context.in(1);
  for (int i : {0, 1}) {
    const DType dtype = context.in(i).dtype();
    if (dtype != DType::kInt8 && dtype != DType::kUint8)
      return Unsupported("codes of type {} are not supported", NameOf(dtype));
  }
  ASSIGN_OR_RETURN(const MatMulPlan plan, PlanMatMul(a.dims(), b.dims()));
  std::vector<int32_t> row_zeros, column_zeros;
  const int64_t rows_of_a = a.rank() > 1 ? a.dims()[static_cast<size_t>(a.rank()) - 2] : 1;
  RETURN_IF_ERROR(ReadZeroPoints(context.input(2), a.dtype(), rows_of_a, row_zeros));
  RETURN_IF_ERROR(ReadZeroPoints(context.input(3), b.dtype(), plan.n, column_zeros));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DType::kInt32, plan.out_dims));
  if (plan.count == 0 || y->size() == 0) return OkStatus();
  auto shifted = context.Scratch(b.size() * static_cast<int64_t>(sizeof(int32_t)));
  auto* bs = reinterpret_cast<int32_t*>(shifted->data());
  LoadCodes(b, 0, b.size(), bs);
  for (int64_t i = 0; i < b.size(); ++i) bs[i] -= column_zeros[static_cast<size_t>(i % plan.n)];
  ScratchPool rows(context, plan.k * static_cast<int64_t>(sizeof(int32_t)));
  auto* out = reinterpret_cast<uint32_t*>(y->mutable_data<int32_t>().data());
  ParallelFor(plan.count * plan.m, [&](int64_t item) {
    const auto batch = static_cast<size_t>(item / plan.m);
    const int64_t row = plan.a_matrix[batch] * plan.m + item % plan.m;
    const int32_t* matrix = bs + plan.b_matrix[batch] * plan.k * plan.n;
    uint32_t* sums = out + item * plan.n;  // wraps around as int32 does
    std::fill_n(sums, plan.n, 0U);
    auto lease = rows.Borrow();
    int32_t* codes = lease.as<int32_t>();
    LoadCodes(a, row * plan.k, plan.k, codes);
    const int32_t zero = row_zeros[static_cast<size_t>(row % rows_of_a)];
    for (int64_t k = 0; k < plan.k; ++k) {
      const auto x = static_cast<uint32_t>(codes[k] - zero);
      for (int64_t j = 0; j < plan.n; ++j) sums[j] += x * static_cast<uint32_t>(matrix[k * plan.n + j]);
    }
  });
  return OkStatus();
}

}  // namespace

const OpDef& DynamicQuantizeLinearOp() {
  static const OpDef def = {
      .name = "DynamicQuantizeLinear",
      .since = {11},
      .min_inputs = 1,
      .eval = EvalDynamicQuantizeLinear,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .summary = "Quantizes to uint8 with the scale and zero point of the tensor's own range",
  };
  return def;
}

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

}  // namespace quant
