// Cast: from any type but strings and complex numbers to another. Integers wrap, floats go towards zero when they
// become integers. Types of fewer than 8 bits and float8 take a detour: they are widened first, or made from int64 or
// float64.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/numerics/packing.h"
#include "libquant/numerics/small_float.h"
#include "libquant/ops/convert_number.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/quant_layout.h"

namespace quant {
namespace {

// A multiple of what packed types have in a byte, so that no two threads share one.
constexpr int64_t kPiece = int64_t{1} << 14;

template <typename F>
Status WithNumberOrBool(DType dtype, F&& f) {
  return dtype == DType::kBool ? f(bool{}) : WithNumber(dtype, std::forward<F>(f));
}

void ForPieces(int64_t size, const std::function<void(int64_t begin, int64_t count)>& body) {
  ParallelFor(CeilDiv(size, kPiece),
              [&](int64_t piece) { body(piece * kPiece, std::min(kPiece, size - piece * kPiece)); });
}

bool IsPackedInteger(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return !info.is_float && info.bits > 0 && info.bits < 8;
}

// A tensor that WithNumber takes, of the same values: itself, or its elements as float32 or int32.
Tensor Widened(const KernelContext& context, const Tensor& x) {
  const bool floats = IsSmallFloat(x.dtype());
  if (!floats && !IsPackedInteger(x.dtype())) return x;
  Tensor out = Tensor::FromBuffer(floats ? DType::kFloat : DType::kInt32, x.dims(), context.Scratch(x.size() * 4));
  ForPieces(x.size(), [&](int64_t begin, int64_t count) {
    if (floats) {
      LoadCodes(x, begin, count, out.mutable_data<float>().data() + begin);
    } else {
      LoadCodes(x, begin, count, out.mutable_data<int32_t>().data() + begin);
    }
  });
  return out;
}

Status CastNumbers(KernelContext& context, const Tensor& x, DType dtype) {
  return WithNumberOrBool(x.dtype(), [&](auto from) -> Status {
    return WithNumberOrBool(dtype, [&](auto to) -> Status {
      using From = decltype(from);
      using To = decltype(to);
      ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, x.dims()));
      const From* in = x.data<From>().data();
      To* result = out->template mutable_data<To>().data();
      ForPieces(x.size(), [&](int64_t begin, int64_t count) {
        for (int64_t i = begin; i < begin + count; ++i) result[i] = ConvertNumber<To>(in[i]);
      });
      return OkStatus();
    });
  });
}

// Integers of fewer than 8 bits keep the low bits.
Status CastToPacked(KernelContext& context, const Tensor& x, DType dtype) {
  return WithNumberOrBool(x.dtype(), [&](auto from) -> Status {
    using From = decltype(from);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, x.dims()));
    std::byte* bytes = out->mutable_bytes().data();
    std::fill_n(bytes, out->byte_size(), std::byte{0});
    const From* in = x.data<From>().data();
    ForPieces(x.size(), [&](int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i) {
        const auto code = static_cast<int32_t>(static_cast<uint64_t>(ConvertNumber<int64_t>(in[i])) & 0xff);
        PackCodes(&code, InfoOf(dtype).bits, i, 1, bytes);
      }
    });
    return OkStatus();
  });
}

StatusOr<SmallFloatRounding> ReadRounding(const Attributes& attributes) {
  SmallFloatRounding out = {.saturate = attributes.Int("saturate", 1) != 0};
  const std::string mode = attributes.String("round_mode", "up");
  if (mode == "down") {
    out.power = PowerRounding::kDown;
  } else if (mode == "nearest") {
    out.power = PowerRounding::kNearest;
  } else if (mode != "up") {
    return DataError("round_mode is {}", mode);
  }
  return out;
}

Status CastToSmallFloat(KernelContext& context, const Tensor& x, DType dtype) {
  ASSIGN_OR_RETURN(const SmallFloatRounding rounding, ReadRounding(context.attributes()));
  return WithNumberOrBool(x.dtype(), [&](auto from) -> Status {
    using From = decltype(from);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, x.dims()));
    std::byte* bytes = out->mutable_bytes().data();
    const int bits = InfoOf(dtype).bits;
    if (bits < 8) std::fill_n(bytes, out->byte_size(), std::byte{0});
    const From* in = x.data<From>().data();
    ForPieces(x.size(), [&](int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i) {
        const int32_t code = SmallFloatCode(dtype, ConvertNumber<double>(in[i]), rounding);
        if (bits == 8) {
          bytes[i] = static_cast<std::byte>(code);
        } else {
          PackCodes(&code, bits, i, 1, bytes);
        }
      }
    });
    return OkStatus();
  });
}

Status CastTo(KernelContext& context, DType dtype) {
  if (context.in(0).dtype() == dtype) {
    context.Set(0, context.in(0));
    return OkStatus();
  }
  const Tensor x = Widened(context, context.in(0));
  if (IsSmallFloat(dtype)) return CastToSmallFloat(context, x, dtype);
  if (IsPackedInteger(dtype)) return CastToPacked(context, x, dtype);
  return CastNumbers(context, x, dtype);
}

Status EvalCast(KernelContext& context) {
  const int64_t to = context.attributes().Int("to", 0);
  if (to < 1 || to > 64) return DataError("to is {}", to);
  return CastTo(context, DTypeFromNumber(static_cast<int32_t>(to)));
}

Status EvalCastLike(KernelContext& context) { return CastTo(context, context.in(1).dtype()); }

}  // namespace

const OpDef& CastOp() {
  static const OpDef def = {.name = "Cast",
                            .since = {6, 9, 13, 19, 21, 23, 24, 25},
                            .eval = EvalCast,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "The elements in another type"};
  return def;
}
const OpDef& CastLikeOp() {
  static const OpDef def = {.name = "CastLike",
                            .since = {15, 19, 21, 23, 24, 25},
                            .min_inputs = 2,
                            .eval = EvalCastLike,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "The elements in another tensor's type"};
  return def;
}

}  // namespace quant
