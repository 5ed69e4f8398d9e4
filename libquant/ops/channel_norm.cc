// InstanceNormalization and GroupNormalization: each plane of one channel, or of one group of channels, of [N, C, ...]
// is brought to mean 0 and variance 1, then scaled and shifted:
//   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/reduce_rows.h"

namespace quant {
namespace {

// x as [batch * groups, channels per group, plane].
struct ChannelGroups {
  int64_t groups = 1;
  bool parameters_per_group = false;  // else per channel
};

Status Normalise(KernelContext& context, const ChannelGroups& g) {
  const Tensor& x = context.in(0);
  RETURN_IF_ERROR(SameTypes(context, {1, 2}));
  const int64_t channels = x.dims()[1];
  const Dims want = {g.parameters_per_group ? g.groups : channels};
  for (int i : {1, 2}) {
    if (context.in(i).dims() != want) {
      return DataError("input {} is {} where {} belongs", i, ToString(context.in(i).dims()), ToString(want));
    }
  }
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto scale, FloatInput<T>::Of(context, &context.in(1)));
    ASSIGN_OR_RETURN(const auto bias, FloatInput<T>::Of(context, &context.in(2)));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    if (x.size() == 0) return y.Finish();
    const int64_t of_group = channels / g.groups, plane = x.size() / (x.dims()[0] * channels);
    ParallelFor(x.dims()[0] * g.groups, [&](int64_t item) {
      const T* in = xs.data() + item * of_group * plane;
      T* out = y.data() + item * of_group * plane;
      const Moments moments = MomentsOf(in, of_group * plane);
      const double inverse = 1 / std::sqrt(moments.variance + epsilon);
      const T shift = static_cast<T>(moments.mean);
      for (int64_t c = 0; c < of_group; ++c) {
        const int64_t group = item % g.groups;
        const int64_t p = g.parameters_per_group ? group : group * of_group + c;
        const T factor = static_cast<T>(scale.data()[p] * inverse), add = bias.data()[p];
        for (int64_t i = 0; i < plane; ++i) out[c * plane + i] = (in[c * plane + i] - shift) * factor + add;
      }
    });
    return y.Finish();
  });
}

Status EvalInstanceNorm(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  return Normalise(context, {std::max<int64_t>(x.dims()[1], 1), false});
}

Status EvalGroupNorm(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 2) return DataError("the input has rank {}; [N, C, ...] is needed", x.rank());
  const int64_t groups = context.attributes().Int("num_groups", 0);
  if (groups < 1 || x.dims()[1] % groups != 0) return DataError("{} channels in {} groups", x.dims()[1], groups);
  return Normalise(context, {groups, context.version() < 21});
}

}  // namespace

const OpDef& InstanceNormalizationOp() {
  static const OpDef def = {
      .name = "InstanceNormalization",
      .since = {6, 22},
      .min_inputs = 3,
      .eval = EvalInstanceNorm,
      .role = FloatOnly{},
      .exactness = Exactness::kRounding,
      .summary = "Normalisation of each channel of each image by its own statistics",
  };
  return def;
}

const OpDef& GroupNormalizationOp() {
  static const OpDef def = {
      .name = "GroupNormalization",
      .since = {18, 21},
      .min_inputs = 3,
      .eval = EvalGroupNorm,
      .role = FloatOnly{},
      .exactness = Exactness::kRounding,
      .summary = "Normalisation of groups of channels of each image by their own statistics",
  };
  return def;
}

}  // namespace quant
