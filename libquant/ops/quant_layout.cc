#include "libquant/ops/quant_layout.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/numerics/packing.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 32768;  // elements a thread takes at a time

template <typename T>
void Load(const std::byte* bytes, int64_t offset, int64_t count, int32_t* out) {
  const T* in = reinterpret_cast<const T*>(bytes) + offset;
  std::copy_n(in, count, out);
}

template <typename T>
void Store(const int32_t* codes, int64_t offset, int64_t count, std::byte* out) {
  T* to = reinterpret_cast<T*>(out) + offset;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(codes[i]);
}

// Zero points have the scales' shape; two tensors of one element do too.
Status CheckZeroPoints(const Tensor& scale, const Tensor& zero_point) {
  const bool both_one = scale.size() == 1 && zero_point.size() == 1;
  if (zero_point.dims() == scale.dims() || both_one) return OkStatus();
  return DataError("zero points of {} for scales of {}", ToString(zero_point.dims()), ToString(scale.dims()));
}

StatusOr<std::vector<float>> ReadScales(const Tensor& scale) {
  std::vector<float> out(static_cast<size_t>(scale.size()));
  if (scale.dtype() == DType::kFloat8E8M0) {
    LoadCodes(scale, 0, scale.size(), out.data());
  } else {
    RETURN_IF_ERROR(ConvertFloats(scale, out.data()));
  }
  return out;
}

Status CheckBlocks(const Dims& dims, const Dims& scale, int64_t axis, int64_t block) {
  bool fits = scale.size() == dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    const int64_t want = static_cast<int64_t>(i) == axis ? CeilDiv(dims[i], block) : dims[i];
    fits = scale[i] == want;
  }
  return fits ? OkStatus()
              : DataError("scales of {} don't fit {} in blocks of {} along axis {}", ToString(scale), ToString(dims),
                          block, axis);
}

}  // namespace

StatusOr<ScaleLayout> ScaleLayout::Read(const KernelContext& context, const Dims& dims, const Tensor& scale) {
  ScaleLayout out;
  out.size = *CheckedProduct(dims);
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t block_size = context.attributes().Int("block_size", 0);
  if (block_size < 0) return DataError("block_size is {}", block_size);
  if (block_size == 0 && scale.size() == 1 && scale.rank() <= 1) {
    out.inner = out.size;
    return out;
  }
  int64_t axis = context.attributes().Int("axis", 1);
  if (axis < -rank || axis >= rank) return DataError("axis {} of a tensor of rank {}", axis, rank);
  if (axis < 0) axis += rank;
  for (int64_t i = 0; i < rank; ++i) {
    (i < axis ? out.outer : i == axis ? out.axis : out.inner) *= dims[static_cast<size_t>(i)];
  }
  if (block_size > 0) {
    RETURN_IF_ERROR(CheckBlocks(dims, scale.dims(), axis, block_size));
    out.blocked = true;
    out.block = std::min(block_size, std::max<int64_t>(out.axis, 1));
  } else {
    if (scale.dims() != Dims{out.axis}) {
      return DataError("scales of {} don't fit axis {} of {}", ToString(scale.dims()), axis, ToString(dims));
    }
    out.block = 1;
  }
  out.blocks = CeilDiv(out.axis, out.block);
  return out;
}

int64_t ScaleLayout::run_count() const {
  if (size == 0) return 0;
  if (block == 0) return CeilDiv(size, kPiece);
  if (inner > 1) return outer * axis;
  return blocked ? outer * blocks : outer;
}

ScaleRun ScaleLayout::Run(int64_t i) const {
  if (block == 0) return {i * kPiece, std::min(kPiece, size - i * kPiece), 0, false};
  if (inner > 1) {
    const int64_t step = i % axis / block;
    if (!blocked) return {i * inner, inner, step, false};
    return {i * inner, inner, (i / axis * blocks + step) * inner, true};
  }
  if (!blocked) return {i * axis, axis, 0, true};
  const int64_t begin = i % blocks * block;
  return {i / blocks * axis + begin, std::min(block, axis - begin), i, false};
}

void ScaleLayout::ForEach(bool parallel, const std::function<void(const ScaleRun&)>& body) const {
  const int64_t runs = run_count();
  if (runs == 0) return;
  const int64_t per_piece = std::max<int64_t>(1, kPiece / CeilDiv(size, runs));
  const auto piece = [&](int64_t p) {
    for (int64_t i = p * per_piece; i < std::min((p + 1) * per_piece, runs); ++i) {
      const ScaleRun run = Run(i);
      for (int64_t at = 0; at < run.length; at += kMaxRun) {
        body({run.offset + at, std::min(kMaxRun, run.length - at), run.scale + (run.scale_per_element ? at : 0),
              run.scale_per_element});
      }
    }
  };
  const int64_t pieces = CeilDiv(runs, per_piece);
  if (parallel) return ParallelFor(pieces, piece);
  for (int64_t p = 0; p < pieces; ++p) piece(p);
}

bool IsCodeType(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return !info.is_float && dtype != DType::kBool && dtype != DType::kString &&
         ((info.bits >= 2 && info.bits <= 16) || dtype == DType::kInt32);
}

CodeRange CodeRangeOf(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  const int64_t levels = int64_t{1} << info.bits;
  const int64_t min = info.is_signed ? -levels / 2 : 0;
  return {static_cast<int32_t>(min), static_cast<int32_t>(min + levels - 1)};
}

void LoadCodes(const Tensor& tensor, int64_t offset, int64_t count, int32_t* out) {
  const std::byte* bytes = tensor.bytes().data();
  const DTypeInfo& info = InfoOf(tensor.dtype());
  switch (tensor.dtype()) {
    case DType::kInt8:
      return Load<int8_t>(bytes, offset, count, out);
    case DType::kUint8:
      return Load<uint8_t>(bytes, offset, count, out);
    case DType::kInt16:
      return Load<int16_t>(bytes, offset, count, out);
    case DType::kUint16:
      return Load<uint16_t>(bytes, offset, count, out);
    case DType::kInt32:
      return Load<int32_t>(bytes, offset, count, out);
    default:
      return UnpackCodes(bytes, info.bits, info.is_signed, offset, count, out);
  }
}

void StoreCodes(const int32_t* codes, int64_t offset, int64_t count, DType dtype, std::byte* out) {
  switch (InfoOf(dtype).bits) {
    case 8:
      return Store<uint8_t>(codes, offset, count, out);
    case 16:
      return Store<uint16_t>(codes, offset, count, out);
    case 32:
      return Store<int32_t>(codes, offset, count, out);
    default:
      return PackCodes(codes, InfoOf(dtype).bits, offset, count, out);
  }
}

void LoadCodes(const Tensor& tensor, int64_t offset, int64_t count, float* out) {
  const auto& values = SmallFloatValues(tensor.dtype());
  const std::byte* bytes = tensor.bytes().data();
  const int bits = InfoOf(tensor.dtype()).bits;
  for (int64_t i = 0; i < count; ++i) {
    int32_t code = static_cast<int32_t>(bits == 8 ? bytes[offset + i] : std::byte{0});
    if (bits != 8) UnpackCodes(bytes, bits, false, offset + i, 1, &code);
    out[i] = values[static_cast<size_t>(code)];
  }
}

void StoreCodes(const float* values, int64_t offset, int64_t count, DType dtype, std::byte* out,
                const SmallFloatRounding& rounding) {
  const int bits = InfoOf(dtype).bits;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t code = SmallFloatCode(dtype, values[i], rounding);
    if (bits == 8) {
      out[offset + i] = static_cast<std::byte>(code);
    } else {
      PackCodes(&code, bits, offset + i, 1, out);
    }
  }
}

StatusOr<QuantParameters> ReadQuantParameters(const Tensor& scale, const Tensor* zero_point) {
  QuantParameters out;
  ASSIGN_OR_RETURN(out.scales, ReadScales(scale));
  out.zero_points.assign(out.scales.size(), 0);
  if (zero_point == nullptr) return out;
  RETURN_IF_ERROR(CheckZeroPoints(scale, *zero_point));
  if (!IsCodeType(zero_point->dtype())) {
    return Unsupported("zero points of type {} are not supported", NameOf(zero_point->dtype()));
  }
  LoadCodes(*zero_point, 0, zero_point->size(), out.zero_points.data());
  return out;
}

StatusOr<FloatQuantParameters> ReadFloatQuantParameters(const Tensor& scale, const Tensor* zero_point) {
  FloatQuantParameters out;
  ASSIGN_OR_RETURN(out.scales, ReadScales(scale));
  out.zero_points.assign(out.scales.size(), 0.0F);
  if (zero_point == nullptr) return out;
  RETURN_IF_ERROR(CheckZeroPoints(scale, *zero_point));
  if (!IsSmallFloat(zero_point->dtype())) {
    return Unsupported("zero points of type {} are not supported", NameOf(zero_point->dtype()));
  }
  LoadCodes(*zero_point, 0, zero_point->size(), out.zero_points.data());
  return out;
}

}  // namespace quant
