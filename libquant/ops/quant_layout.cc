#include "libquant/ops/quant_layout.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 32768;  // elements a thread takes at a time

template <typename T>
void Load(const std::byte* bytes, int64_t offset, int64_t count, int32_t* out) {
  const T* in = reinterpret_cast<const T*>(bytes) + offset;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(in[i]);
}

template <typename T>
void Store(const int32_t* codes, int64_t offset, int64_t count, std::byte* out) {
  T* to = reinterpret_cast<T*>(out) + offset;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(codes[i]);
}

void LoadPacked(const std::byte* bytes, int bits, bool is_signed, int64_t offset, int64_t count, int32_t* out) {
  const int per_byte = 8 / bits;
  const int32_t mask = (1 << bits) - 1, sign = is_signed ? 1 << (bits - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = offset + i;
    const int32_t raw = (static_cast<int32_t>(bytes[at / per_byte]) >> (at % per_byte * bits)) & mask;
    out[i] = (raw ^ sign) - sign;
  }
}

void StorePacked(const int32_t* codes, int bits, int64_t offset, int64_t count, std::byte* out) {
  const int per_byte = 8 / bits;
  const int32_t mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = offset + i;
    out[at / per_byte] |= static_cast<std::byte>((codes[i] & mask) << (at % per_byte * bits));
  }
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
      return LoadPacked(bytes, info.bits, info.is_signed, offset, count, out);
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
      return StorePacked(codes, InfoOf(dtype).bits, offset, count, out);
  }
}

StatusOr<QuantParameters> ReadQuantParameters(const Tensor& scale, const Tensor* zero_point) {
  QuantParameters out;
  out.scales.resize(static_cast<size_t>(scale.size()));
  RETURN_IF_ERROR(ConvertFloats(scale, out.scales.data()));
  out.zero_points.assign(out.scales.size(), 0);
  if (zero_point == nullptr) return out;
  const bool both_one = scale.size() == 1 && zero_point->size() == 1;
  if (zero_point->dims() != scale.dims() && !both_one) {
    return DataError("zero points of {} for scales of {}", ToString(zero_point->dims()), ToString(scale.dims()));
  }
  if (!IsCodeType(zero_point->dtype())) {
    return Unsupported("zero points of type {} are not supported", NameOf(zero_point->dtype()));
  }
  LoadCodes(*zero_point, 0, zero_point->size(), out.zero_points.data());
  return out;
}

}  // namespace quant
