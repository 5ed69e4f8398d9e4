// Activation functions by name, as the recurrent and the fused operators have them: ONNX's, and ONNX Runtime's
// HardSwish.
#pragma once

#include <cstdint>
#include <string>

#include "libquant/base/status.h"

namespace quant {

struct Activation {
  enum class Kind {
    kAffine,
    kClip,
    kElu,
    kHardSigmoid,
    kHardSwish,
    kLeakyRelu,
    kRelu,
    kScaledTanh,
    kSelu,
    kSigmoid,
    kSoftplus,
    kSoftsign,
    kTanh,
    kThresholdedRelu
  };
  Kind kind = Kind::kTanh;
  double alpha = 0;
  double beta = 0;
};

struct ActivationRow {
  std::string_view name;  // lower case
  Activation defaults;
  int parameters;  // 0; 1: alpha; 2: alpha and beta
};

// The row of a name, in letters of any case; Unsupported when there is none.
StatusOr<ActivationRow> FindActivation(std::string name);

// x[i] = f(clamp(x[i], -clip, clip)); no clamping for clip 0. Instances: float, double.
template <typename T>
void Activate(const Activation& f, T clip, int64_t count, T* x);

}  // namespace quant
