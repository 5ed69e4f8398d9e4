#include "libquant/report/as_double.h"

namespace quant {
namespace {

template <typename T>
void Widen(const Tensor& tensor, int64_t begin, std::span<double> out) {
  const T* from = tensor.data<T>().data() + begin;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(from[i]);
}

// Integers of 4 or 2 bits, first in the low bits of each byte.
void WidenPacked(const Tensor& tensor, int64_t begin, std::span<double> out) {
  const DTypeInfo& info = InfoOf(tensor.dtype());
  const int per_byte = 8 / info.bits;
  const int levels = 1 << info.bits;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t at = begin + static_cast<int64_t>(i);
    const auto byte = static_cast<int>(tensor.bytes()[static_cast<size_t>(at / per_byte)]);
    int code = (byte >> (static_cast<int>(at % per_byte) * info.bits)) & (levels - 1);
    if (info.is_signed && code >= levels / 2) code -= levels;
    out[i] = code;
  }
}

}  // namespace

Status ReadAsDouble(const Tensor& tensor, int64_t begin, std::span<double> out) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      Widen<float>(tensor, begin, out);
      break;
    case DType::kDouble:
      Widen<double>(tensor, begin, out);
      break;
    case DType::kFloat16:
      Widen<float16>(tensor, begin, out);
      break;
    case DType::kBfloat16:
      Widen<bfloat16>(tensor, begin, out);
      break;
    case DType::kInt8:
      Widen<int8_t>(tensor, begin, out);
      break;
    case DType::kUint8:
    case DType::kBool:
      Widen<uint8_t>(tensor, begin, out);
      break;
    case DType::kInt16:
      Widen<int16_t>(tensor, begin, out);
      break;
    case DType::kUint16:
      Widen<uint16_t>(tensor, begin, out);
      break;
    case DType::kInt32:
      Widen<int32_t>(tensor, begin, out);
      break;
    case DType::kUint32:
      Widen<uint32_t>(tensor, begin, out);
      break;
    case DType::kInt64:
      Widen<int64_t>(tensor, begin, out);
      break;
    case DType::kUint64:
      Widen<uint64_t>(tensor, begin, out);
      break;
    case DType::kInt4:
    case DType::kUint4:
    case DType::kInt2:
    case DType::kUint2:
      WidenPacked(tensor, begin, out);
      break;
    default:
      return Unsupported("tensors of {} can't be compared", NameOf(tensor.dtype()));
  }
  return OkStatus();
}

}  // namespace quant
