// BatchNormalization at inference: y = (x - mean[c]) * scale[c] / sqrt(variance[c] + epsilon) + bias[c].
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

Status CheckBatchNorm(const KernelContext& context, int64_t channels) {
  const Attributes& attributes = context.attributes();
  if (attributes.Int("training_mode", 0) != 0) return Unsupported("training_mode is not supported");
  if (attributes.Int("spatial", 1) == 0) return Unsupported("statistics per element (spatial = 0) are not supported");
  for (int i = 1; i < context.output_count(); ++i) {
    if (context.wanted(i)) return Unsupported("outputs of training are not supported");
  }
  for (int i = 1; i < 5; ++i) {
    if (context.in(i).dims() != Dims{channels}) {
      return DataError("input {} is {} for {} channels", i, ToString(context.in(i).dims()), channels);
    }
  }
  return OkStatus();
}

Status EvalBatchNorm(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 1) return DataError("the input is a scalar");
  // A rank-1 input is a batch of one channel.
  const int64_t channels = x.rank() > 1 ? x.dims()[1] : 1;
  RETURN_IF_ERROR(CheckBatchNorm(context, channels));
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto scale, FloatInput<T>::Of(context, &context.in(1)));
    ASSIGN_OR_RETURN(const auto bias, FloatInput<T>::Of(context, &context.in(2)));
    ASSIGN_OR_RETURN(const auto mean, FloatInput<T>::Of(context, &context.in(3)));
    ASSIGN_OR_RETURN(const auto variance, FloatInput<T>::Of(context, &context.in(4)));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    if (x.size() == 0) return y.Finish();
    const int64_t planes = x.dims()[0] * channels, plane = x.size() / planes;
    ParallelFor(planes, [&](int64_t p) {
      const int64_t c = p % channels;
      const T factor = static_cast<T>(scale.data()[c] / std::sqrt(variance.data()[c] + epsilon));
      const T shift = mean.data()[c], add = bias.data()[c];
      const T* in = xs.data() + p * plane;
      T* out = y.data() + p * plane;
      for (int64_t i = 0; i < plane; ++i) out[i] = (in[i] - shift) * factor + add;
    });
    return y.Finish();
  });
}

}  // namespace

const OpDef& BatchNormalizationOp() {
  static const OpDef def = {
      .name = "BatchNormalization",
      .since = {7, 9, 14, 15},
      .min_inputs = 5,
      .eval = EvalBatchNorm,
      .role = Requantize{},
      .exactness = Exactness::kRounding,
      .summary = "Normalisation of each channel by given statistics",
  };
  return def;
}

}  // namespace quant
