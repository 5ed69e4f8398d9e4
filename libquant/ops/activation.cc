#include "libquant/ops/activation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

namespace quant {
namespace {

using Kind = Activation::Kind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<ActivationRow, 14> kActivations = {{
    {"affine", {Kind::kAffine, 1, 0}, 2},
    {"clip", {Kind::kClip, -kInfinity, kInfinity}, 2},
    {"elu", {Kind::kElu, 1, 0}, 1},
    {"hardsigmoid", {Kind::kHardSigmoid, 0.2, 0.5}, 2},
    {"hardswish", {Kind::kHardSwish, 0, 0}, 0},
    {"leakyrelu", {Kind::kLeakyRelu, 0.01, 0}, 1},
    {"relu", {Kind::kRelu, 0, 0}, 0},
    {"scaledtanh", {Kind::kScaledTanh, 1, 1}, 2},
    {"selu", {Kind::kSelu, 1.67326319217681884765625, 1.05070102214813232421875}, 2},
    {"sigmoid", {Kind::kSigmoid, 0, 0}, 0},
    {"softplus", {Kind::kSoftplus, 0, 0}, 0},
    {"softsign", {Kind::kSoftsign, 0, 0}, 0},
    {"tanh", {Kind::kTanh, 0, 0}, 0},
    {"thresholdedrelu", {Kind::kThresholdedRelu, 1, 0}, 1},
}};

}  // namespace

StatusOr<ActivationRow> FindActivation(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* row =
      std::find_if(kActivations.begin(), kActivations.end(), [&](const auto& r) { return r.name == name; });
  if (row == kActivations.end()) return Unsupported("the activation '{}' is not known", name);
  return *row;
}

template <typename T>
void Activate(const Activation& f, T clip, int64_t count, T* x) {
  using K = Activation::Kind;
  if (clip > 0) {
    for (int64_t i = 0; i < count; ++i) x[i] = std::clamp(x[i], -clip, clip);
  }
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  const auto each = [&](const auto& g) {
    for (int64_t i = 0; i < count; ++i) x[i] = g(x[i]);
  };
  switch (f.kind) {
    case K::kAffine:
      return each([&](T v) { return a * v + b; });
    case K::kClip:
      return each([&](T v) { return v < a ? a : v > b ? b : v; });
    case K::kElu:
      return each([&](T v) { return v >= 0 ? v : a * std::expm1(v); });
    case K::kHardSigmoid:
      return each([&](T v) { return std::clamp(a * v + b, T(0), T(1)); });
    case K::kHardSwish:
      return each([](T v) { return v * std::clamp(v / T(6) + T(0.5), T(0), T(1)); });
    case K::kLeakyRelu:
      return each([&](T v) { return v >= 0 ? v : a * v; });
    case K::kRelu:
      return each([&](T v) { return v < 0 ? T(0) : v; });
    case K::kScaledTanh:
      return each([&](T v) { return a * std::tanh(b * v); });
    case K::kSelu:
      return each([&](T v) { return b * (v > 0 ? v : a * std::expm1(v)); });
    case K::kSigmoid:
      return each([&](T v) { return T(1) / (T(1) + std::exp(-v)); });
    case K::kSoftplus:
      return each([&](T v) { return std::max(v, T(0)) + std::log1p(std::exp(-std::abs(v))); });
    case K::kSoftsign:
      return each([&](T v) { return v / (T(1) + std::abs(v)); });
    case K::kTanh:
      return each([&](T v) { return std::tanh(v); });
    case K::kThresholdedRelu:
      return each([&](T v) { return v > a ? v : T(0); });
  }
}

template void Activate(const Activation&, float, int64_t, float*);
template void Activate(const Activation&, double, int64_t, double*);

}  // namespace quant
