#include "libquant/ops/code_product.h"

#include <algorithm>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// For each index of `lines` (an operand's dims with 1 in place of the axis summed over), that of its parameter.
StatusOr<std::vector<int64_t>> Broadcast(const Tensor& parameters, const Dims& lines, const Dims& operand) {
  const Dims& dims = parameters.dims();
  const auto wrong = [&] {
    return DataError("parameters of {} for a matrix of {}", ToString(dims), ToString(operand));
  };
  if (dims.size() > lines.size()) return wrong();
  const auto count = CheckedProduct(lines);
  if (!count) return wrong();
  std::vector<int64_t> index(static_cast<size_t>(*count), 0);
  int64_t block = 1, stride = 1;
  for (size_t back = 1; back <= dims.size(); ++back) {
    const int64_t dim = dims[dims.size() - back], line = lines[lines.size() - back];
    if (dim != 1 && dim != line) return wrong();
    for (int64_t i = 0; dim > 1 && i < *count; ++i) index[static_cast<size_t>(i)] += i / block % line * stride;
    stride *= dim;
    block *= line;
  }
  return index;
}

StatusOr<std::vector<int32_t>> ZeroPoints(const Tensor* tensor, const Dims& operand, bool of_rows) {
  if (tensor == nullptr) {
    Dims lines = operand;
    lines[of_rows || lines.size() == 1 ? lines.size() - 1 : lines.size() - 2] = 1;
    return std::vector<int32_t>(static_cast<size_t>(CheckedProduct(lines).value_or(0)), 0);
  }
  ASSIGN_OR_RETURN(const auto index, of_rows ? RowParameters(*tensor, operand) : ColumnParameters(*tensor, operand));
  std::vector<int32_t> values(static_cast<size_t>(tensor->size())), out(index.size());
  LoadCodes(*tensor, 0, tensor->size(), values.data());
  std::transform(index.begin(), index.end(), out.begin(), [&](int64_t i) { return values[static_cast<size_t>(i)]; });
  return out;
}

}  // namespace

StatusOr<std::vector<int64_t>> RowParameters(const Tensor& parameters, const Dims& operand) {
  Dims lines = operand;
  lines.back() = 1;
  // A vector is one for each row.
  if (parameters.rank() == 1 && parameters.size() != 1 && lines.size() > 1) lines.pop_back();
  return Broadcast(parameters, lines, operand);
}

StatusOr<std::vector<int64_t>> ColumnParameters(const Tensor& parameters, const Dims& operand) {
  Dims lines = operand;
  lines[lines.size() > 1 ? lines.size() - 2 : 0] = 1;
  return Broadcast(parameters, lines, operand);
}

Status CheckCodes(const Tensor& codes, const Tensor* zero_point) {
  if (codes.dtype() != DType::kInt8 && codes.dtype() != DType::kUint8) {
    return Unsupported("codes of type {} are not supported", NameOf(codes.dtype()));
  }
  if (zero_point == nullptr || zero_point->dtype() == codes.dtype()) return OkStatus();
  return DataError("a zero point of {} for codes of {}", NameOf(zero_point->dtype()), NameOf(codes.dtype()));
}

StatusOr<CodeProduct> PlanCodeProduct(const CodeProductInputs& inputs) {
  RETURN_IF_ERROR(CheckCodes(*inputs.a, inputs.a_zero));
  RETURN_IF_ERROR(CheckCodes(*inputs.b, inputs.b_zero));
  CodeProduct out;
  const Dims &a = inputs.a->dims(), &b = inputs.b->dims();
  ASSIGN_OR_RETURN(out.plan, PlanMatMul(a, b));
  // Without elements there may be more rows and columns than memory; their sums are 0.
  if (inputs.a->size() == 0 || inputs.b->size() == 0) return out;
  ASSIGN_OR_RETURN(out.a_zeros, ZeroPoints(inputs.a_zero, a, true));
  ASSIGN_OR_RETURN(out.b_zeros, ZeroPoints(inputs.b_zero, b, false));
  out.a = {inputs.a->data<uint8_t>().data(), out.plan.k, false, inputs.a->dtype() == DType::kInt8, nullptr, 1};
  out.b = {inputs.b->data<uint8_t>().data(), out.plan.n, false, inputs.b->dtype() == DType::kInt8, nullptr, 1};
  return out;
}

void RunCodeProduct(const KernelContext& context, const CodeProduct& product,
                    const std::function<void(const SumTile&)>& finish) {
  const MatMulPlan& plan = product.plan;
  IntegerGemmBatch(
      context, {plan.m, plan.n, plan.k}, plan.count,
      [&](int64_t i) {
        const auto at = static_cast<size_t>(i);
        CodeOperands out = {product.a, product.b};
        if (plan.k == 0) return out;
        out.a.data += plan.a_matrix[at] * plan.m * plan.k;
        out.b.data += plan.b_matrix[at] * plan.k * plan.n;
        out.a.zeros = product.a_zeros.data() + plan.a_matrix[at] * plan.m;
        out.b.zeros = product.b_zeros.data() + plan.b_matrix[at] * plan.n;
        return out;
      },
      finish);
}

}  // namespace quant
