#include "libquant/ir/dtype.h"

#include <array>

namespace quant {
namespace {

constexpr std::array<DTypeInfo, 27> kRows = {{
    {DType::kUndefined, "undefined", 0, false, false, 0},
    {DType::kFloat, "float32", 32, true, true, 1},
    {DType::kUint8, "uint8", 8, false, false, 1},
    {DType::kInt8, "int8", 8, false, true, 1},
    {DType::kUint16, "uint16", 16, false, false, 1},
    {DType::kInt16, "int16", 16, false, true, 1},
    {DType::kInt32, "int32", 32, false, true, 1},
    {DType::kInt64, "int64", 64, false, true, 1},
    {DType::kString, "string", 0, false, false, 1},
    {DType::kBool, "bool", 8, false, false, 1},
    {DType::kFloat16, "float16", 16, true, true, 1},
    {DType::kDouble, "float64", 64, true, true, 1},
    {DType::kUint32, "uint32", 32, false, false, 1},
    {DType::kUint64, "uint64", 64, false, false, 1},
    {DType::kComplex64, "complex64", 64, false, true, 1},
    {DType::kComplex128, "complex128", 128, false, true, 1},
    {DType::kBfloat16, "bfloat16", 16, true, true, 4},
    {DType::kFloat8E4M3FN, "float8e4m3fn", 8, true, true, 9},
    {DType::kFloat8E4M3FNUZ, "float8e4m3fnuz", 8, true, true, 9},
    {DType::kFloat8E5M2, "float8e5m2", 8, true, true, 9},
    {DType::kFloat8E5M2FNUZ, "float8e5m2fnuz", 8, true, true, 9},
    {DType::kUint4, "uint4", 4, false, false, 10},
    {DType::kInt4, "int4", 4, false, true, 10},
    {DType::kFloat4E2M1, "float4e2m1", 4, true, true, 11},
    {DType::kFloat8E8M0, "float8e8m0", 8, true, false, 12},
    {DType::kUint2, "uint2", 2, false, false, 13},
    {DType::kInt2, "int2", 2, false, true, 13},
}};

constexpr DTypeInfo kListRow = {DType::kList, "sequence", 0, false, false, 1};
constexpr DTypeInfo kNothingRow = {DType::kNothing, "empty optional", 0, false, false, 8};

}  // namespace

const DTypeInfo& InfoOf(DType dtype) {
  if (dtype == DType::kList) return kListRow;
  if (dtype == DType::kNothing) return kNothingRow;
  auto i = static_cast<size_t>(dtype);
  return i < kRows.size() ? kRows[i] : kRows[0];
}

DType DTypeFromNumber(int32_t onnx_number) {
  return onnx_number > 0 && static_cast<size_t>(onnx_number) < kRows.size() ? kRows[onnx_number].dtype
                                                                            : DType::kUndefined;
}

DType DTypeFromName(std::string_view name) {
  for (const DTypeInfo& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return DType::kUndefined;
}

}  // namespace quant
