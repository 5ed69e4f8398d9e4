#include "libquant/report/as_double.h"

#include "libquant/numerics/packing.h"
#include "libquant/numerics/small_float.h"

namespace quant {
namespace {

template <typename T>
void Widen(const Tensor& tensor, int64_t begin, std::span<double> out) {
  const T* from = tensor.data<T>().data() + begin;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(from[i]);
}

// What is packed: integers of 4 and 2 bits, and the codes of float4.
void WidenPacked(const Tensor& tensor, int64_t begin, std::span<double> out) {
  const DTypeInfo& info = InfoOf(tensor.dtype());
  const bool is_signed = info.is_signed && !info.is_float;
  for (size_t i = 0; i < out.size(); ++i) {
    int32_t code = 0;
    UnpackCodes(tensor.bytes().data(), info.bits, is_signed, begin + static_cast<int64_t>(i), 1, &code);
    out[i] = code;
  }
}

// Floats of 8 and 4 bits.
void WidenSmallFloats(const Tensor& tensor, int64_t begin, std::span<double> out) {
  if (InfoOf(tensor.dtype()).bits == 8) {
    Widen<uint8_t>(tensor, begin, out);
  } else {
    WidenPacked(tensor, begin, out);
  }
  const auto& values = SmallFloatValues(tensor.dtype());
  for (double& v : out) v = values[static_cast<size_t>(v)];
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
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0:
    case DType::kFloat4E2M1:
      WidenSmallFloats(tensor, begin, out);
      break;
    default:
      return Unsupported("tensors of {} can't be compared", NameOf(tensor.dtype()));
  }
  return OkStatus();
}

}  // namespace quant
