// Arithmetic, comparison and logic on two or more broadcast operands.
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "libquant/ops/broadcast.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/inputs.h"
#include "libquant/ops/one_way_broadcast.h"
#include "libquant/ops/tail.h"

namespace quant {
namespace {

// Integer arithmetic wraps around, as two's complement does.
template <typename T, typename F>
T Wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return static_cast<T>(f(a, b));
  }
}

struct AddF {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapped(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct SubF {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapped(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct MulF {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// Zero divisors have been refused; the one quotient that overflows wraps.
struct DivF {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      return b == -1 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : static_cast<T>(a / b);
    } else {
      return static_cast<T>(a / b);
    }
  }
};
// The sign of the divisor, as Python's %.
struct ModF {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
      const T r = static_cast<T>(a % b);
      return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
    } else {
      return std::fmod(a, b);
    }
  }
};
// The sign of the dividend, as C's fmod.
struct FmodF {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};
struct MinF {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    }
    return b < a ? b : a;
  }
};
struct MaxF {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    }
    return a < b ? b : a;
  }
};

Status CheckSame(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return OkStatus();
  return DataError("operands are {} and {}", NameOf(a.dtype()), NameOf(b.dtype()));
}

template <typename T>
Status CheckDivisor(const Tensor& b) {
  if constexpr (std::is_integral_v<T>) {
    for (T v : b.data<T>()) {
      if (v == 0) return DataError("integer division by zero");
    }
  }
  return OkStatus();
}

template <typename F, bool kDivides = false>
Status EvalArithmetic(KernelContext& context) {
  const Tensor& a = context.in(0);
  ASSIGN_OR_RETURN(const Tensor b, SecondOperand(context));
  RETURN_IF_ERROR(CheckSame(a, b));
  return WithNumber(a.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    if (kDivides) RETURN_IF_ERROR(CheckDivisor<T>(b));
    return BroadcastBinary<T, T, T, true>(
        context, a, b, [](T x, T y) { return static_cast<T>(F()(static_cast<W>(x), static_cast<W>(y))); });
  });
}

// Add, Sub, Mul, Div as a tail on one operand, the other being known.
template <typename F>
Tail ArithmeticTail(const KernelCall& call, int through, const Dims& dims) {
  if (call.version < 7 || call.inputs.size() != 2) return {};
  const Tensor& other = *call.inputs[static_cast<size_t>(1 - through)];
  if (through == 0) return CombineTail(other, dims, [](float y, float x) { return F()(y, x); });
  return CombineTail(other, dims, [](float y, float x) { return F()(x, y); });
}

Status EvalMod(KernelContext& context) {
  return context.attributes().Int("fmod", 0) != 0 ? EvalArithmetic<FmodF, true>(context)
                                                  : EvalArithmetic<ModF, true>(context);
}

// Base and exponent may have different types; the result is the base's.
Status EvalPow(KernelContext& context) {
  const Tensor& a = context.in(0);
  ASSIGN_OR_RETURN(const Tensor b, SecondOperand(context));
  // Squares are what models are full of.
  const bool square =
      b.size() == 1 && b.dtype() == DType::kFloat && b.data<float>()[0] == 2.0f && a.dtype() == DType::kFloat;
  if (square) {
    return BroadcastBinary<float, float, float, true>(context, a, b, [](float x, float) { return x * x; });
  }
  if (a.dtype() == DType::kFloat && b.dtype() == DType::kFloat) {
    return BroadcastBinary<float, float, float>(context, a, b, [](float x, float y) { return std::pow(x, y); });
  }
  Tensor exponents = Tensor::Allocate(DType::kDouble, b.dims());
  RETURN_IF_ERROR(WithNumber(b.dtype(), [&](auto zero) -> Status {
    using B = decltype(zero);
    const auto from = b.data<B>();
    const auto to = exponents.mutable_data<double>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<double>(from[i]);
    return OkStatus();
  }));
  return WithType<float, double, float16, bfloat16, int32_t, int64_t>(a.dtype(), [&](auto zero) -> Status {
    using A = decltype(zero);
    return BroadcastBinary<A, double, A>(
        context, a, exponents, [](A x, double y) { return static_cast<A>(std::pow(static_cast<double>(x), y)); });
  });
}

template <typename F>
Status EvalComparison(KernelContext& context) {
  const Tensor& a = context.in(0);
  ASSIGN_OR_RETURN(const Tensor b, SecondOperand(context));
  RETURN_IF_ERROR(CheckSame(a, b));
  const auto compare = [&](auto zero) -> Status {
    using T = decltype(zero);
    return BroadcastBinary<T, T, bool>(context, a, b, [](T x, T y) { return F()(x, y); });
  };
  return a.dtype() == DType::kBool ? compare(false) : WithNumber(a.dtype(), compare);
}

Status EqualStrings(KernelContext& context, const Tensor& a, const Tensor& b) {
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast({&a, &b}));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DType::kBool, plan.out));
  const int64_t a_step = plan.strides[0].back(), b_step = plan.strides[1].back();
  ForEachRow(plan, [&](int64_t at, std::span<const int64_t> from, int64_t length) {
    ApplyRow(a.strings()->data() + from[0], a_step, b.strings()->data() + from[1], b_step,
             out->mutable_data<bool>().data() + at, length, std::equal_to<>());
  });
  return OkStatus();
}

struct EqualF {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
Status EvalEqual(KernelContext& context) {
  const Tensor &a = context.in(0), &b = context.in(1);
  const bool strings = a.strings() != nullptr && b.strings() != nullptr;
  return strings ? EqualStrings(context, a, b) : EvalComparison<EqualF>(context);
}
struct GreaterF {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct LessF {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct GreaterOrEqualF {
  template <typename T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LessOrEqualF {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};

template <typename F>
Status EvalLogic(KernelContext& context) {
  const Tensor& a = context.in(0);
  ASSIGN_OR_RETURN(const Tensor b, SecondOperand(context));
  if (a.dtype() != DType::kBool || b.dtype() != DType::kBool) return DataError("operands are not bool");
  return BroadcastBinary<bool, bool, bool>(context, a, b, F());
}
struct AndF {
  bool operator()(bool a, bool b) const { return a && b; }
};
struct OrF {
  bool operator()(bool a, bool b) const { return a || b; }
};
struct XorF {
  bool operator()(bool a, bool b) const { return a != b; }
};

// Folds any number of operands from the left, two at a time.
template <typename F>
Status EvalVariadic(KernelContext& context) {
  Tensor total = context.in(0);
  context.Set(0, total);
  for (int i = 1; i < context.input_count(); ++i) {
    RETURN_IF_ERROR(RequireInputs(context, {i}));
    const Tensor& next = context.in(i);
    RETURN_IF_ERROR(CheckSame(total, next));
    RETURN_IF_ERROR(WithNumber(total.dtype(), [&](auto zero) -> Status {
      using T = decltype(zero);
      using W = typename Wide<T>::type;
      return BroadcastBinary<T, T, T>(
          context, total, next, [](T x, T y) { return static_cast<T>(F()(static_cast<W>(x), static_cast<W>(y))); });
    }));
    total = context.outputs()[0];
  }
  return OkStatus();
}

Status EvalMean(KernelContext& context) {
  RETURN_IF_ERROR(EvalVariadic<AddF>(context));
  const Tensor sum = context.outputs()[0];
  const auto count = static_cast<float>(context.input_count());
  return WithFloat(sum.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    const Tensor divisor = Tensor::Scalar(static_cast<T>(count));
    return BroadcastBinary<T, T, T>(context, sum, divisor, [](T x, T y) { return static_cast<T>(x / y); });
  });
}

Status EvalWhere(KernelContext& context) {
  const Tensor& condition = context.in(0);
  const Tensor& a = context.in(1);
  const Tensor& b = context.in(2);
  if (condition.dtype() != DType::kBool) return DataError("the condition is {}", NameOf(condition.dtype()));
  RETURN_IF_ERROR(CheckSame(a, b));
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast({&condition, &a, &b}));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, a.dtype(), plan.out));
  return WithElementBits(a.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    const bool* c = condition.data<bool>().data();
    const T* x = a.data<T>().data();
    const T* y = b.data<T>().data();
    T* z = out->mutable_data<T>().data();
    const int64_t steps[] = {plan.strides[0].back(), plan.strides[1].back(), plan.strides[2].back()};
    ForEachRow(plan, [&](int64_t at, std::span<const int64_t> from, int64_t length) {
      for (int64_t i = 0; i < length; ++i) {
        z[at + i] = c[from[0] + i * steps[0]] ? x[from[1] + i * steps[1]] : y[from[2] + i * steps[2]];
      }
    });
    return OkStatus();
  });
}

OpDef Binary(std::string_view name, std::vector<int64_t> since, Status (*eval)(KernelContext&), Role role,
             Exactness exactness, std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = 2,
          .eval = eval,
          .role = role,
          .exactness = exactness,
          .summary = summary};
}

}  // namespace

#define NIBBLE_BINARY(op, since_list, eval_fn, role_value, exact, text)                 \
  const OpDef& op##Op() {                                                               \
    static const OpDef def = Binary(#op, since_list, eval_fn, role_value, exact, text); \
    return def;                                                                         \
  }
#define NIBBLE_SINCE(...) \
  { __VA_ARGS__ }
#define NIBBLE_ARITHMETIC(op, divides, text)                                                                  \
  const OpDef& op##Op() {                                                                                     \
    static const OpDef def = WithTail(Binary(#op, NIBBLE_SINCE(6, 7, 13, 14), EvalArithmetic<op##F, divides>, \
                                             Requantize{}, Exactness::kExact, text),                          \
                                      ArithmeticTail<op##F>);                                                 \
    return def;                                                                                               \
  }
NIBBLE_ARITHMETIC(Add, false, "Sum of two tensors")
NIBBLE_ARITHMETIC(Sub, false, "Difference")
NIBBLE_ARITHMETIC(Mul, false, "Product")
NIBBLE_ARITHMETIC(Div, true, "Quotient; integers truncate")
#undef NIBBLE_ARITHMETIC
NIBBLE_BINARY(Mod, NIBBLE_SINCE(10, 13), EvalMod, Control{}, Exactness::kExact, "Remainder")
NIBBLE_BINARY(Pow, NIBBLE_SINCE(1, 7, 12, 13, 15), EvalPow, FloatOnly{}, Exactness::kTranscendental, "Power")
NIBBLE_BINARY(Equal, NIBBLE_SINCE(1, 7, 11, 13, 19), EvalEqual, Control{}, Exactness::kExact, "a == b")
NIBBLE_BINARY(Greater, NIBBLE_SINCE(1, 7, 9, 13), EvalComparison<GreaterF>, Control{}, Exactness::kExact, "a > b")
NIBBLE_BINARY(Less, NIBBLE_SINCE(1, 7, 9, 13), EvalComparison<LessF>, Control{}, Exactness::kExact, "a < b")
NIBBLE_BINARY(GreaterOrEqual, NIBBLE_SINCE(12, 16), EvalComparison<GreaterOrEqualF>, Control{}, Exactness::kExact,
              "a >= b")
NIBBLE_BINARY(LessOrEqual, NIBBLE_SINCE(12, 16), EvalComparison<LessOrEqualF>, Control{}, Exactness::kExact, "a <= b")
NIBBLE_BINARY(And, NIBBLE_SINCE(1, 7), EvalLogic<AndF>, Control{}, Exactness::kExact, "a and b")
NIBBLE_BINARY(Or, NIBBLE_SINCE(1, 7), EvalLogic<OrF>, Control{}, Exactness::kExact, "a or b")
NIBBLE_BINARY(Xor, NIBBLE_SINCE(1, 7), EvalLogic<XorF>, Control{}, Exactness::kExact, "a xor b")
#undef NIBBLE_BINARY

#define NIBBLE_VARIADIC(op, since_list, eval_fn, role_value, text) \
  const OpDef& op##Op() {                                          \
    static const OpDef def = {.name = #op,                         \
                              .since = since_list,                 \
                              .eval = eval_fn,                     \
                              .role = role_value,                  \
                              .exactness = Exactness::kExact,      \
                              .summary = text};                    \
    return def;                                                    \
  }
NIBBLE_VARIADIC(Max, NIBBLE_SINCE(6, 8, 12, 13), EvalVariadic<MaxF>, SharedScale{}, "Largest of the operands")
NIBBLE_VARIADIC(Min, NIBBLE_SINCE(6, 8, 12, 13), EvalVariadic<MinF>, SharedScale{}, "Smallest of the operands")
NIBBLE_VARIADIC(Sum, NIBBLE_SINCE(6, 8, 13), EvalVariadic<AddF>, Requantize{}, "Sum of the operands")
NIBBLE_VARIADIC(Mean, NIBBLE_SINCE(6, 8, 13), EvalMean, Requantize{}, "Mean of the operands")
#undef NIBBLE_VARIADIC
#undef NIBBLE_SINCE

const OpDef& WhereOp() {
  static const OpDef def = {.name = "Where",
                            .since = {9, 16},
                            .min_inputs = 3,
                            .eval = EvalWhere,
                            .role = SharedScale{},
                            .exactness = Exactness::kExact,
                            .summary = "Elements of one or the other tensor"};
  return def;
}

}  // namespace quant
