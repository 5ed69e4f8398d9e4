// Integers as patterns of bits: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift; and BitCast, which reads any
// element's bits as another type's.
#include <algorithm>

#include "libquant/ops/broadcast.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/exact_op.h"

namespace quant {
namespace {

template <typename F>
Status WithInteger(DType dtype, F&& f) {
  return WithType<int32_t, int64_t, uint8_t, int8_t, uint16_t, int16_t, uint32_t, uint64_t>(dtype, std::forward<F>(f));
}

template <typename F>
Status EvalBits(KernelContext& context, F f) {
  const Tensor &a = context.in(0), &b = context.in(1);
  if (a.dtype() != b.dtype()) return DataError("operands are {} and {}", NameOf(a.dtype()), NameOf(b.dtype()));
  return WithInteger(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return BroadcastBinary<T, T, T>(context, a, b, [f](T x, T y) { return static_cast<T>(f(x, y)); });
  });
}

Status EvalBitwiseAnd(KernelContext& context) {
  return EvalBits(context, [](auto x, auto y) { return x & y; });
}
Status EvalBitwiseOr(KernelContext& context) {
  return EvalBits(context, [](auto x, auto y) { return x | y; });
}
Status EvalBitwiseXor(KernelContext& context) {
  return EvalBits(context, [](auto x, auto y) { return x ^ y; });
}

Status EvalBitwiseNot(KernelContext& context) {
  const Tensor& x = context.in(0);
  return WithInteger(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), x.dims()));
    const auto from = x.data<T>();
    const auto to = out->mutable_data<T>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(~from[i]);
    return OkStatus();
  });
}

// What is shifted out is lost; a shift by the type's width or more leaves 0.
Status EvalBitShift(KernelContext& context) {
  const Tensor &a = context.in(0), &b = context.in(1);
  if (a.dtype() != b.dtype()) return DataError("operands are {} and {}", NameOf(a.dtype()), NameOf(b.dtype()));
  const std::string direction = context.attributes().String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") return DataError("direction is {}", direction);
  const bool left = direction == "LEFT";
  return WithType<uint8_t, uint16_t, uint32_t, uint64_t>(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return BroadcastBinary<T, T, T>(context, a, b, [left](T x, T shift) {
      if (shift >= 8 * sizeof(T)) return T{0};
      return static_cast<T>(left ? static_cast<uint64_t>(x) << shift : static_cast<uint64_t>(x) >> shift);
    });
  });
}

Status EvalBitCast(KernelContext& context) {
  const Tensor& x = context.in(0);
  const int64_t to = context.attributes().Int("to", 0);
  const DType dtype = to < 1 || to > 64 ? DType::kUndefined : DTypeFromNumber(static_cast<int32_t>(to));
  if (InfoOf(dtype).bits == 0 || InfoOf(dtype).bits != InfoOf(x.dtype()).bits) {
    return DataError("the bits of {} can't be read as type {}", NameOf(x.dtype()), to);
  }
  if (dtype != DType::kBool) {
    context.Set(0, x.InPlace(dtype, x.dims()));  // no data moves
    return OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, x.dims()));
  std::transform(x.bytes().begin(), x.bytes().end(), out->mutable_bytes().begin(),
                 [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });  // a bool has but two patterns
  return OkStatus();
}

}  // namespace

const OpDef& BitwiseAndOp() {
  static const OpDef def = ExactOp("BitwiseAnd", {18}, 2, EvalBitwiseAnd, Control{}, "a and b, bit by bit");
  return def;
}
const OpDef& BitwiseOrOp() {
  static const OpDef def = ExactOp("BitwiseOr", {18}, 2, EvalBitwiseOr, Control{}, "a or b, bit by bit");
  return def;
}
const OpDef& BitwiseXorOp() {
  static const OpDef def = ExactOp("BitwiseXor", {18}, 2, EvalBitwiseXor, Control{}, "a xor b, bit by bit");
  return def;
}
const OpDef& BitwiseNotOp() {
  static const OpDef def = ExactOp("BitwiseNot", {18}, 1, EvalBitwiseNot, Control{}, "Every bit turned over");
  return def;
}
const OpDef& BitShiftOp() {
  static const OpDef def =
      ExactOp("BitShift", {11}, 2, EvalBitShift, Control{}, "Unsigned integers shifted to the left or right");
  return def;
}
const OpDef& BitCastOp() {
  static const OpDef def =
      ExactOp("BitCast", {26}, 1, EvalBitCast, Control{}, "The elements' bits read as another type");
  return def;
}

}  // namespace quant
