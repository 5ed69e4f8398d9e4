// Functions of one tensor, element by element.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "libquant/ops/exp_rows.h"
#include "libquant/ops/map_elements.h"
#include "libquant/ops/packet_rows.h"
#include "libquant/ops/tail.h"

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
  return MapNumbers(context, [](auto v) {  // NaN stays NaN
    return v == v ? static_cast<decltype(v)>((v > 0) - (v < 0)) : v;
  });
}

// NaN stays NaN.
auto ReluOf(const Attributes&) {
  return [](auto v) { return v < 0 ? decltype(v){0} : v; };
}
Status EvalRelu(KernelContext& context) {
  const auto relu = ReluOf(context.attributes());
  return InfoOf(context.in(0).dtype()).is_float ? MapFloats(context, relu) : MapNumbers(context, relu);
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
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) { ErfRow(in, count, out); });
}
Status EvalTanh(KernelContext& context) {
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) { TanhRow(in, count, out); });
}
Tail TanhTail(const KernelCall&, int, const Dims&) {
  return [](float* data, int64_t, int64_t count) { TanhRow(data, count, data); };
}
Status EvalExp(KernelContext& context) {
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) {
    ExpRow(in, std::remove_cvref_t<decltype(*in)>{0}, count, out);
  });
}

// 1 / (1 + exp(-|x|)), mirrored for negative x, so that no exponential overflows.
template <typename T>
void SigmoidRow(const T* in, int64_t count, T* out) {
  MapBlocks(in, count, out, [](const T* x, int64_t n, T* y) {
    for (int64_t i = 0; i < n; ++i) y[i] = -std::abs(x[i]);
    ExpRow(y, T{0}, n, y);
    for (int64_t i = 0; i < n; ++i) {
      const T e = y[i];
      y[i] = std::isnan(x[i]) ? x[i] : (x[i] < 0 ? e : T{1}) / (T{1} + e);
    }
  });
}
Status EvalSigmoid(KernelContext& context) {
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) { SigmoidRow(in, count, out); });
}
Tail SigmoidTail(const KernelCall&, int, const Dims&) {
  return [](float* data, int64_t, int64_t count) { SigmoidRow(data, count, data); };
}

auto LeakyReluOf(const Attributes& attributes) {
  const float alpha = attributes.Float("alpha", 0.01f);
  return [alpha](auto v) { return v < 0 ? static_cast<decltype(v)>(alpha) * v : v; };
}
Status EvalLeakyRelu(KernelContext& context) { return MapFloats(context, LeakyReluOf(context.attributes())); }
Status EvalElu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.0f);
  return MapFloats(context, [alpha](auto v) { return v < 0 ? static_cast<decltype(v)>(alpha) * std::expm1(v) : v; });
}
Status EvalCelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 1.0f);
  return MapFloats(context, [alpha](auto v) {
    const auto a = static_cast<decltype(v)>(alpha);
    return std::max<decltype(v)>(v, 0) + std::min<decltype(v)>(0, a * std::expm1(v / a));
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
auto HardSigmoidOf(const Attributes& attributes) {
  const float alpha = attributes.Float("alpha", 0.2f);
  const float beta = attributes.Float("beta", 0.5f);
  return [=](auto v) {
    using T = decltype(v);
    // In this order NaN stays NaN.
    return std::max(std::min(static_cast<T>(alpha) * v + static_cast<T>(beta), T{1}), T{0});
  };
}
Status EvalHardSigmoid(KernelContext& context) { return MapFloats(context, HardSigmoidOf(context.attributes())); }
auto HardSwishOf(const Attributes&) {
  return [](auto v) {
    using T = decltype(v);
    return v * std::max(T{0}, std::min(T{1}, v / T{6} + T{0.5}));
  };
}
Status EvalHardSwish(KernelContext& context) { return MapFloats(context, HardSwishOf(context.attributes())); }

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
    return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) {
      using T = std::remove_cvref_t<decltype(*in)>;
      MapBlocks(in, count, out, [](const T* x, int64_t n, T* y) {
        for (int64_t i = 0; i < n; ++i) y[i] = T{0.7978845608028654} * (x[i] + T{0.044715} * x[i] * x[i] * x[i]);
        TanhRow(y, n, y);
        for (int64_t i = 0; i < n; ++i) y[i] = T{0.5} * x[i] * (1 + y[i]);
      });
    });
  }
  return MapFloatRuns(context, [](const auto* in, int64_t count, auto* out) {
    using T = std::remove_cvref_t<decltype(*in)>;
    MapBlocks(in, count, out, [](const T* x, int64_t n, T* y) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * T{0.70710678118654752440};
      ErfRow(y, n, y);
      for (int64_t i = 0; i < n; ++i) y[i] = T{0.5} * x[i] * (1 + y[i]);
    });
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
template <typename T>
struct ClipBounds {
  using W = typename Wide<T>::type;
  W low = std::is_floating_point_v<W> ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::lowest();
  W high = std::is_floating_point_v<W> ? std::numeric_limits<W>::infinity() : std::numeric_limits<W>::max();

  static StatusOr<ClipBounds> Of(const Attributes& attributes, int64_t version, DType dtype, const Tensor* min,
                                 const Tensor* max) {
    ClipBounds out;
    if (version < 11) {
      out.low = static_cast<W>(attributes.Float("min", static_cast<float>(out.low)));
      out.high = static_cast<W>(attributes.Float("max", static_cast<float>(out.high)));
      return out;
    }
    for (const Tensor* bound : {min, max}) {
      if (bound == nullptr) continue;
      if (bound->dtype() != dtype || bound->size() != 1) return DataError("a bound is {}", Describe(*bound));
      (bound == min ? out.low : out.high) = static_cast<W>(bound->data<T>()[0]);
    }
    return out;
  }
  // The upper bound wins where they cross; NaN stays NaN.
  W operator()(W v) const { return v < low ? (low > high ? high : low) : v > high ? high : v; }
};

Status EvalClip(KernelContext& context) {
  const Tensor& x = context.in(0);
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    ASSIGN_OR_RETURN(const auto clip, ClipBounds<T>::Of(context.attributes(), context.version(), x.dtype(),
                                                        context.input(1), context.input(2)));
    ASSIGN_OR_RETURN(Tensor * out, context.AllocateOverInput(0, x.dtype(), x.dims()));
    const T* from = x.data<T>().data();
    T* to = out->template mutable_data<T>().data();
    ParallelFor(CeilDiv(x.size(), kMapPiece), [&](int64_t piece) {
      const int64_t end = std::min(x.size(), (piece + 1) * kMapPiece);
      for (int64_t i = piece * kMapPiece; i < end; ++i) to[i] = static_cast<T>(clip(static_cast<W>(from[i])));
    });
    return OkStatus();
  });
}

Tail ClipTail(const KernelCall& call, int through, const Dims&) {
  const auto bound = [&](size_t i) { return i < call.inputs.size() ? call.inputs[i] : nullptr; };
  const auto clip = ClipBounds<float>::Of(call.attributes, call.version, DType::kFloat, bound(1), bound(2));
  return through == 0 && clip.ok() ? MapTail(*clip) : Tail();
}

template <auto kMake>
Tail TailOf(const KernelCall& call, int, const Dims&) {
  return MapTail(kMake(call.attributes));
}

}  // namespace

#define NIBBLE_SINCE(...) \
  { __VA_ARGS__ }
#define NIBBLE_UNARY(op, since_list, role_value, exact, text)                                      \
  const OpDef& op##Op() {                                                                          \
    static const OpDef def = Unary(#op, since_list, Eval##op, role_value, Exactness::exact, text); \
    return def;                                                                                    \
  }
#define NIBBLE_UNARY_TAIL(op, since_list, role_value, exact, tail, text)                                           \
  const OpDef& op##Op() {                                                                                          \
    static const OpDef def = WithTail(Unary(#op, since_list, Eval##op, role_value, Exactness::exact, text), tail); \
    return def;                                                                                                    \
  }
NIBBLE_UNARY(Abs, NIBBLE_SINCE(6, 13), Requantize{}, kExact, "Absolute value")
NIBBLE_UNARY(Neg, NIBBLE_SINCE(6, 13), Requantize{}, kExact, "Negation")
NIBBLE_UNARY(Sign, NIBBLE_SINCE(9, 13), Requantize{}, kExact, "-1, 0 or 1")
NIBBLE_UNARY_TAIL(Relu, NIBBLE_SINCE(6, 13, 14), OrderPreserving{}, kExact, TailOf<ReluOf>, "max(x, 0)")
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
NIBBLE_UNARY_TAIL(Tanh, NIBBLE_SINCE(6, 13), Requantize{}, kTranscendental, TanhTail, "Hyperbolic tangent")
NIBBLE_UNARY_TAIL(Sigmoid, NIBBLE_SINCE(6, 13), Requantize{}, kTranscendental, SigmoidTail, "1 / (1 + exp(-x))")
NIBBLE_UNARY_TAIL(LeakyRelu, NIBBLE_SINCE(6, 16), Requantize{}, kExact, TailOf<LeakyReluOf>,
                  "Rectifier with a slope below zero")
NIBBLE_UNARY(Elu, NIBBLE_SINCE(6, 22), Requantize{}, kTranscendental, "Exponential linear unit")
NIBBLE_UNARY(Celu, NIBBLE_SINCE(12), Requantize{}, kTranscendental, "Continuous exponential linear unit")
NIBBLE_UNARY(Selu, NIBBLE_SINCE(6, 22), Requantize{}, kTranscendental, "Scaled exponential linear unit")
NIBBLE_UNARY(ThresholdedRelu, NIBBLE_SINCE(10, 22), Requantize{}, kExact, "x above a threshold, else 0")
NIBBLE_UNARY_TAIL(HardSigmoid, NIBBLE_SINCE(6, 22), Requantize{}, kRounding, TailOf<HardSigmoidOf>,
                  "Piecewise linear sigmoid")
NIBBLE_UNARY_TAIL(HardSwish, NIBBLE_SINCE(14, 22), Requantize{}, kRounding, TailOf<HardSwishOf>,
                  "x times a piecewise linear sigmoid")
NIBBLE_UNARY(Softplus, NIBBLE_SINCE(1, 22), FloatOnly{}, kTranscendental, "log(1 + exp(x))")
NIBBLE_UNARY(Softsign, NIBBLE_SINCE(1, 22), FloatOnly{}, kExact, "x / (1 + |x|)")
NIBBLE_UNARY(Mish, NIBBLE_SINCE(18, 22), FloatOnly{}, kTranscendental, "x tanh(softplus(x))")
NIBBLE_UNARY(Gelu, NIBBLE_SINCE(20), FloatOnly{}, kTranscendental, "Gaussian error linear unit")
NIBBLE_UNARY(Not, NIBBLE_SINCE(1), Control{}, kExact, "Logical negation")
NIBBLE_UNARY_TAIL(Clip, NIBBLE_SINCE(6, 11, 12, 13), OrderPreserving{}, kExact, ClipTail, "Elements held within bounds")
#undef NIBBLE_UNARY
#undef NIBBLE_UNARY_TAIL
#undef NIBBLE_SINCE

}  // namespace quant
