// Element types, with ONNX's numbering, one row each.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <string_view>

namespace quant {

// Values equal ONNX's TensorProto.DataType.
enum class DType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  // Not ONNX's numbers: a value that is no tensor. See Tensor::OfList.
  kList = 1001,
  kNothing = 1002,
};

using float16 = Eigen::half;
using bfloat16 = Eigen::bfloat16;

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as ONNX's text form and NumPy spell it: float32, int4, ...
  int bits;               // 0 for strings
  bool is_float;
  bool is_signed;
  int min_ir_version;
};

// The row of a type; the row of kUndefined for a number we don't know.
const DTypeInfo& InfoOf(DType dtype);
DType DTypeFromNumber(int32_t onnx_number);
DType DTypeFromName(std::string_view name);  // kUndefined when unknown
inline std::string_view NameOf(DType dtype) { return InfoOf(dtype).name; }

// The DType of a C++ element type.
template <typename T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kDouble;
}
template <>
constexpr DType DTypeOf<float16>() {
  return DType::kFloat16;
}
template <>
constexpr DType DTypeOf<bfloat16>() {
  return DType::kBfloat16;
}
template <>
constexpr DType DTypeOf<int8_t>() {
  return DType::kInt8;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kUint8;
}
template <>
constexpr DType DTypeOf<int16_t>() {
  return DType::kInt16;
}
template <>
constexpr DType DTypeOf<uint16_t>() {
  return DType::kUint16;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<uint32_t>() {
  return DType::kUint32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType DTypeOf<uint64_t>() {
  return DType::kUint64;
}
template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}

}  // namespace quant
