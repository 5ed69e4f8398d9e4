// Functions of one tensor, element by element.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "libquant/ops/exp_rows.h"
#include "libquant/ops/map_elements.h"

namespace quant {
namespace {

Status EvalAbs(KernelContext& context) {
  if (context.in(0).dtype() == DType::kFloat) return MapFloats(context, [](auto v) { return std::abs(v); });
  return MapNumbers(context, [](auto v) {
    using T = decltype(v);
    if constexpr (std::is_unsigned_v<T>)
      return v;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(v < 0 ? 0 - static_cast<std::make_unsigned_t<T>>(v) : v);
    else
      return std::abs(v);
  });
}

Status EvalNeg(KernelContext& context) {
  return MapNumbers(context, [](auto v) {
    using T = decltype(v);
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(v));
    else
      return -v;
  });
}

Status EvalSign(KernelContext& context) {
  return MapNumbers(context, [](auto v) { return static_cast<decltype(v)>((v > 0) - (v < 0)); });
}

Status EvalRelu(KernelContext& context) {
  // NaN stays NaN.
  if (InfoOf(context.in(0).dtype()).is_float)
    return MapFloats(context, [](auto v) { return v < 0 ? decltype(v){0} : v; });
  return MapNumbers(context, [](auto v) { return v < 0 ? decltype(v){0} : v; });
}

Status EvalSqrt(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::sqrt(v); });
}
Status EvalReciprocal(KernelContext& context) {
  return MapFloats(context, [](auto v) { return 1 / v; });
}
Status EvalFloor(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::floor(v); });
}
Status EvalCeil(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::ceil(v); });
}
Status EvalRound(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::nearbyint(v); });  // halves to even
}
Status EvalLog(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::log(v); });
}
Status EvalSin(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::sin(v); });
}
Status EvalCos(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::cos(v); });
}
Status EvalErf(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::erf(v); });
}
Status EvalTanh(KernelContext& context) {
  return MapFloats(context, [](auto v) { return std::tanh(v); });
}
Status EvalExp(KernelContext& context) {
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) {
    ExpRow(in, std::remove_cvref_t<decltype(*in)>{0}, count, out);
  });
}

// 1 / (1 + exp(-|x|)), mirrored for negative x, so that no exponential overflows.
Status EvalSigmoid(KernelContext& context) {
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) {
    using T = std::remove_cvref_t<decltype(*in)>;
    for (int64_t i = 0; i < count; ++i) out[i] = -std::abs(in[i]);
    ExpRow(out, T{0}, count, out);
    for (int64_t i = 0; i < count; ++i) {
      const T e = out[i];
      out[i] = in[i] != in[i] ? in[i] : (in[i] < 0 ? e : T{1}) / (T{1} + e);
    }
  });
}

Status EvalLeakyRelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 0.01f);
  return MapFloats(context, [alpha](auto v) { return v < 0 ? static_cast<decltype(v)>(alpha) * v : v; });
}
Status EvalElu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.0f);
  return MapFloats(context, [alpha](auto v) { return v < 0 ? static_cast<decltype(v)>(alpha) * std::expm1(v) : v; });
}
Status EvalCelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.0f);
  return MapFloats(context, [alpha](auto v) {
    const auto a = static_cast<decltype(v)>(alpha);
    return std::max<decltype(v)>(0, v) + std::min<decltype(v)>(0, a * std::expm1(v / a));
  });
}
Status EvalSelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.67326319217681884765625f);
  const float gamma = context.attributes().Float("gamma", 1.05070102214813232421875f);
  return MapFloats(context, [=](auto v) {
    using T = decltype(v);
    return static_cast<T>(gamma) * (v > 0 ? v : static_cast<T>(alpha) * std::expm1(v));
  });
}
Status EvalThresholdedRelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.0f);
  return MapFloats(context, [alpha](auto v) { return v > static_cast<decltype(v)>(alpha) ? v : decltype(v){0}; });
}
Status EvalHardSigmoid(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 0.2f);
  const float beta = context.attributes().Float("beta", 0.5f);
  return MapFloats(context, [=](auto v) {
    using T = decltype(v);
    return std::max(T{0}, std::min(T{1}, static_cast<T>(alpha) * v + static_cast<T>(beta)));
  });
}
Status EvalHardSwish(KernelContext& context) {
  return MapFloats(context, [](auto v) {
    using T = decltype(v);
    return v * std::max(T{0}, std::min(T{1}, v / T{6} + T{0.5}));
  });
}

template <typename T>
T Softplus(T v) {
  return std::log1p(std::exp(-std::abs(v))) + std::max(v, T{0});
}
Status EvalSoftplus(KernelContext& context) {
  return MapFloats(context, [](auto v) { return Softplus(v); });
}
Status EvalSoftsign(KernelContext& context) {
  return MapFloats(context, [](auto v) { return v / (1 + std::abs(v)); });
}
Status EvalMish(KernelContext& context) {
  return MapFloats(context, [](auto v) { return v * std::tanh(Softplus(v)); });
}

Status EvalGelu(KernelContext& context) {
  if (context.attributes().String("approximate", "none") == "tanh") {
    return MapFloats(context, [](auto v) {
      using T = decltype(v);
      return T{0.5} * v * (1 + std::tanh(T{0.7978845608028654} * (v + T{0.044715} * v * v * v)));
    });
  }
  return MapFloats(context, [](auto v) {
    using T = decltype(v);
    return T{0.5} * v * (1 + std::erf(v * T{0.70710678118654752440}));
  });
}

Status EvalNot(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.dtype() != DType::kBool) return DataError("the input is {}", NameOf(x.dtype()));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DType::kBool, x.dims()));
  std::transform(x.data<bool>().begin(), x.data<bool>().end(), out->mutable_data<bool>().begin(), std::logical_not<>());
  return OkStatus();
}

// Bounds are attributes below opset 11 and optional scalars of the input's type from there.
Status EvalClip(KernelContext& context) {
  const Tensor& x = context.in(0);
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    W low = std::numeric_limits<W>::lowest();
    W high = std::numeric_limits<W>::max();
    if constexpr (std::is_floating_point_v<W>) {
      low = -std::numeric_limits<W>::infinity();
      high = std::numeric_limits<W>::infinity();
    }
    if (context.version() < 11) {
      low = static_cast<W>(context.attributes().Float("min", static_cast<float>(low)));
      high = static_cast<W>(context.attributes().Float("max", static_cast<float>(high)));
    }
    for (int i : {1, 2}) {
      const Tensor* bound = context.version() < 11 ? nullptr : context.input(i);
      if (bound == nullptr) continue;
      if (bound->dtype() != x.dtype() || bound->size() != 1) return DataError("bound {} is {}", i, Describe(*bound));
      (i == 1 ? low : high) = static_cast<W>(bound->data<T>()[0]);
    }
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), x.dims()));
    const T* from = x.data<T>().data();
    T* to = out->template mutable_data<T>().data();
    ParallelFor(CeilDiv(x.size(), kMapPiece), [&](int64_t piece) {
      const int64_t end = std::min(x.size(), (piece + 1) * kMapPiece);
      for (int64_t i = piece * kMapPiece; i < end; ++i) {
        const W v = static_cast<W>(from[i]);
        to[i] = static_cast<T>(v < low ? (low > high ? high : low) : v > high ? high : v);
      }
    });
    return OkStatus();
  });
}

}  // namespace

#define NIBBLE_SINCE(...) \
  { __VA_ARGS__ }
#define NIBBLE_UNARY(op, since_list, role_value, exact, text)                                      \
  const OpDef& op##Op() {                                                                          \
    static const OpDef def = Unary(#op, since_list, Eval##op, role_value, Exactness::exact, text); \
    return def;                                                                                    \
  }
NIBBLE_UNARY(Abs, NIBBLE_SINCE(6, 13), Requantize{}, kExact, "Absolute value")
NIBBLE_UNARY(Neg, NIBBLE_SINCE(6, 13), Requantize{}, kExact, "Negation")
NIBBLE_UNARY(Sign, NIBBLE_SINCE(9, 13), Requantize{}, kExact, "-1, 0 or 1")
NIBBLE_UNARY(Relu, NIBBLE_SINCE(6, 13, 14), OrderPreserving{}, kExact, "max(x, 0)")
NIBBLE_UNARY(Sqrt, NIBBLE_SINCE(6, 13), FloatOnly{}, kExact, "Square root")
NIBBLE_UNARY(Reciprocal, NIBBLE_SINCE(6, 13), FloatOnly{}, kExact, "1 / x")
NIBBLE_UNARY(Floor, NIBBLE_SINCE(6, 13), FloatOnly{}, kExact, "Largest integer not above")
NIBBLE_UNARY(Ceil, NIBBLE_SINCE(6, 13), FloatOnly{}, kExact, "Smallest integer not below")
NIBBLE_UNARY(Round, NIBBLE_SINCE(11, 22), FloatOnly{}, kExact, "Nearest integer, halves to even")
NIBBLE_UNARY(Log, NIBBLE_SINCE(6, 13), FloatOnly{}, kTranscendental, "Natural logarithm")
NIBBLE_UNARY(Exp, NIBBLE_SINCE(6, 13), FloatOnly{}, kTranscendental, "Exponential")
NIBBLE_UNARY(Sin, NIBBLE_SINCE(7, 22), FloatOnly{}, kTranscendental, "Sine")
NIBBLE_UNARY(Cos, NIBBLE_SINCE(7, 22), FloatOnly{}, kTranscendental, "Cosine")
NIBBLE_UNARY(Erf, NIBBLE_SINCE(9, 13), FloatOnly{}, kTranscendental, "Error function")
NIBBLE_UNARY(Tanh, NIBBLE_SINCE(6, 13), Requantize{}, kTranscendental, "Hyperbolic tangent")
NIBBLE_UNARY(Sigmoid, NIBBLE_SINCE(6, 13), Requantize{}, kTranscendental, "1 / (1 + exp(-x))")
NIBBLE_UNARY(LeakyRelu, NIBBLE_SINCE(6, 16), Requantize{}, kExact, "Rectifier with a slope below zero")
NIBBLE_UNARY(Elu, NIBBLE_SINCE(6, 22), Requantize{}, kTranscendental, "Exponential linear unit")
NIBBLE_UNARY(Celu, NIBBLE_SINCE(12), Requantize{}, kTranscendental, "Continuous exponential linear unit")
NIBBLE_UNARY(Selu, NIBBLE_SINCE(6, 22), Requantize{}, kTranscendental, "Scaled exponential linear unit")
NIBBLE_UNARY(ThresholdedRelu, NIBBLE_SINCE(10, 22), Requantize{}, kExact, "x above a threshold, else 0")
NIBBLE_UNARY(HardSigmoid, NIBBLE_SINCE(6, 22), Requantize{}, kRounding, "Piecewise linear sigmoid")
NIBBLE_UNARY(HardSwish, NIBBLE_SINCE(14, 22), Requantize{}, kRounding, "x times a piecewise linear sigmoid")
NIBBLE_UNARY(Softplus, NIBBLE_SINCE(1, 22), FloatOnly{}, kTranscendental, "log(1 + exp(x))")
NIBBLE_UNARY(Softsign, NIBBLE_SINCE(1, 22), FloatOnly{}, kExact, "x / (1 + |x|)")
NIBBLE_UNARY(Mish, NIBBLE_SINCE(18, 22), FloatOnly{}, kTranscendental, "x tanh(softplus(x))")
NIBBLE_UNARY(Gelu, NIBBLE_SINCE(20), FloatOnly{}, kTranscendental, "Gaussian error linear unit")
NIBBLE_UNARY(Not, NIBBLE_SINCE(1), Control{}, kExact, "Logical negation")
NIBBLE_UNARY(Clip, NIBBLE_SINCE(6, 11, 12, 13), OrderPreserving{}, kExact, "Elements held within bounds")
#undef NIBBLE_UNARY
#undef NIBBLE_SINCE

}  // namespace quant
