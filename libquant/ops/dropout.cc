// Dropout. At inference, and when nothing is dropped, the input; in training mode (from opset 12 on)
//   y = mask * x / (1 - ratio), mask[i] = u[i] >= ratio
// with u from NumPy's legacy generator (MT19937, 53 bits a number), seeded by `seed` or else 0: ONNX leaves the
// generator open, and its reference takes this one.
#include <algorithm>
#include <cmath>
#include <random>

#include "libquant/ops/dispatch.h"
#include "libquant/ops/exact_op.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

// Uniform in [0, 1).
double NextUniform(std::mt19937& generator) {
  const uint32_t high = static_cast<uint32_t>(generator()) >> 5, low = static_cast<uint32_t>(generator()) >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

StatusOr<bool> IsTraining(const KernelContext& context) {
  const Tensor* mode = context.version() < 12 ? nullptr : context.input(2);
  if (mode == nullptr) return false;
  if (mode->dtype() != DType::kBool || mode->size() != 1) return DataError("training_mode is {}", Describe(*mode));
  return mode->data<bool>()[0];
}

StatusOr<double> ReadRatio(const KernelContext& context) {
  const Tensor* input = context.input(1);
  if (input == nullptr) return 0.5;
  if (input->size() != 1) return DataError("the ratio is {}", Describe(*input));
  double ratio = 0;
  RETURN_IF_ERROR(ConvertFloats(*input, &ratio));
  if (!(ratio >= 0 && ratio < 1)) return DataError("the ratio is {}", ratio);
  return ratio;
}

// Everything is kept. Before opset 10 the mask had the input's type.
Status Keep(KernelContext& context) {
  const Tensor& x = context.in(0);
  context.Set(0, x);
  if (!context.wanted(1)) return OkStatus();
  const auto fill = [&](auto one) -> Status {
    using T = decltype(one);
    ASSIGN_OR_RETURN(Tensor * mask, context.Allocate(1, DTypeOf<T>(), x.dims()));
    std::fill_n(mask->mutable_data<T>().data(), mask->size(), static_cast<T>(1));
    return OkStatus();
  };
  return context.version() >= 10 ? fill(true) : WithFloat(x.dtype(), fill);
}

Status Drop(KernelContext& context, double ratio) {
  const Tensor& x = context.in(0);
  const int64_t seed = context.attributes().Int("seed", 0);
  std::mt19937 generator(static_cast<uint32_t>(seed));
  std::vector<bool> kept(static_cast<size_t>(x.size()));
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = NextUniform(generator) >= ratio;
  if (context.wanted(1)) {
    ASSIGN_OR_RETURN(Tensor * mask, context.Allocate(1, DType::kBool, x.dims()));
    std::copy(kept.begin(), kept.end(), mask->mutable_data<bool>().begin());
  }
  if (!context.wanted(0)) return OkStatus();
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    const double scale = 1 / (1 - ratio);
    for (size_t i = 0; i < kept.size(); ++i) out.data()[i] = static_cast<T>((kept[i] ? in.data()[i] : T{0}) * scale);
    return out.Finish();
  });
}

Status EvalDropout(KernelContext& context) {
  ASSIGN_OR_RETURN(const bool training, IsTraining(context));
  if (!training) return Keep(context);
  ASSIGN_OR_RETURN(const double ratio, ReadRatio(context));
  return ratio == 0 ? Keep(context) : Drop(context, ratio);
}

}  // namespace

const OpDef& DropoutOp() {
  static const OpDef def =
      Mover("Dropout", {7, 10, 12, 13, 22}, 1, EvalDropout, "The input, at inference; in training with random zeros");
  return def;
}

}  // namespace quant
