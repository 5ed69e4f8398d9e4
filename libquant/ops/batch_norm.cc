// BatchNormalization: y = (x - mean[c]) * scale[c] / sqrt(variance[c] + epsilon) + bias[c]. At inference the statistics
// are inputs. In training mode (from opset 14 on) they are those of x, and the inputs are running ones, of which
// outputs 1 and 2 are the next: running * momentum + current * (1 - momentum).
#include <algorithm>
#include <array>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

// x as [samples, channels, plane].
struct Planes {
  int64_t samples = 1, channels = 1, plane = 1;
};

bool IsTraining(const Attributes& attributes, int64_t version) {
  return version >= 14 && attributes.Int("training_mode", 0) != 0;
}
bool IsTraining(const KernelContext& context) { return IsTraining(context.attributes(), context.version()); }

// One channel's y = (x - mean) * factor + bias.
template <typename T>
struct ChannelMap {
  T mean, factor, bias;
  ChannelMap(double channel_mean, double variance, double epsilon, T scale, T channel_bias)
      : mean(static_cast<T>(channel_mean)),
        factor(static_cast<T>(scale / std::sqrt(variance + epsilon))),
        bias(channel_bias) {}
  T operator()(T x) const { return (x - mean) * factor + bias; }
};

Status CheckBatchNorm(const KernelContext& context, int64_t channels) {
  const Attributes& attributes = context.attributes();
  if (context.version() < 7 && attributes.Int("is_test", 0) == 0)
    return Unsupported("training before opset 14 (is_test = 0) is not supported");
  if (attributes.Int("spatial", 1) == 0) return Unsupported("statistics per element (spatial = 0) are not supported");
  for (int i = 1; i < context.output_count() && !IsTraining(context); ++i) {
    if (context.wanted(i)) return Unsupported("outputs of training are supported in training mode from opset 14 on");
  }
  for (int i = 1; i < 5; ++i) {
    if (context.in(i).dims() != Dims{channels}) {
      return DataError("input {} is {} for {} channels", i, ToString(context.in(i).dims()), channels);
    }
  }
  return OkStatus();
}

// Mean and population variance of each channel.
template <typename T>
void Statistics(const T* x, const Planes& p, std::vector<double>& means, std::vector<double>& variances) {
  const auto count = static_cast<double>(p.samples * p.plane);
  ParallelFor(p.channels, [&](int64_t c) {
    const auto sum = [&](auto f) {
      double total = 0;
      for (int64_t n = 0; n < p.samples; ++n) {
        const T* in = x + (n * p.channels + c) * p.plane;
        for (int64_t i = 0; i < p.plane; ++i) total += f(static_cast<double>(in[i]));
      }
      return total;
    };
    const double mean = sum([](double v) { return v; }) / count;
    means[static_cast<size_t>(c)] = mean;
    variances[static_cast<size_t>(c)] = sum([mean](double v) { return (v - mean) * (v - mean); }) / count;
  });
}

template <typename T>
void Normalise(const T* x, const Planes& p, const std::vector<double>& means, const std::vector<double>& variances,
               const T* scale, const T* bias, double epsilon, T* y) {
  ParallelFor(p.samples * p.channels, [&](int64_t i) {
    const int64_t c = i % p.channels;
    const ChannelMap<T> map(means[static_cast<size_t>(c)], variances[static_cast<size_t>(c)], epsilon, scale[c],
                            bias[c]);
    const T* in = x + i * p.plane;
    T* out = y + i * p.plane;
    for (int64_t j = 0; j < p.plane; ++j) out[j] = map(in[j]);
  });
}

// Output i: the running statistic of input `from` moved towards the current one.
Status EmitRunning(KernelContext& context, int i, int from, const std::vector<double>& current) {
  if (!context.wanted(i)) return OkStatus();
  const double momentum = context.attributes().Float("momentum", 0.9F);
  const Tensor& before = context.in(from);
  return WithComputeType(before.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &before));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, i, before.dtype(), before.dims()));
    for (size_t c = 0; c < current.size(); ++c) {
      out.data()[c] = static_cast<T>(in.data()[c] * momentum + current[c] * (1 - momentum));
    }
    return out.Finish();
  });
}

Status EvalBatchNorm(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 1) return DataError("the input is a scalar");
  // A rank-1 input is a batch of one channel.
  Planes p = {x.dims()[0], x.rank() > 1 ? x.dims()[1] : 1, 1};
  RETURN_IF_ERROR(CheckBatchNorm(context, p.channels));
  const bool training = IsTraining(context);
  if (training && x.size() == 0) return DataError("{} has no statistics", Describe(x));
  if (x.size() > 0) p.plane = x.size() / (p.samples * p.channels);
  std::vector<double> means(static_cast<size_t>(p.channels)), variances(means.size());
  RETURN_IF_ERROR(ConvertFloats(context.in(3), means.data()));
  RETURN_IF_ERROR(ConvertFloats(context.in(4), variances.data()));
  RETURN_IF_ERROR(WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto scale, FloatInput<T>::Of(context, &context.in(1)));
    ASSIGN_OR_RETURN(const auto bias, FloatInput<T>::Of(context, &context.in(2)));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    if (x.size() == 0) return y.Finish();
    if (training) Statistics(xs.data(), p, means, variances);
    Normalise(xs.data(), p, means, variances, scale.data(), bias.data(), context.attributes().Float("epsilon", 1e-5F),
              y.data());
    return y.Finish();
  }));
  if (!training) return OkStatus();
  RETURN_IF_ERROR(EmitRunning(context, 1, 3, means));
  return EmitRunning(context, 2, 4, variances);
}

Tail BatchNormTail(const KernelCall& call, int through, const Dims& dims) {
  const bool plain = call.version >= 7 && !IsTraining(call.attributes, call.version) &&
                     call.attributes.Int("spatial", 1) != 0 && through == 0 && dims.size() > 1 &&
                     call.inputs.size() == 5;
  if (!plain) return {};
  std::array<const float*, 5> inputs = {};
  for (size_t i = 1; i < 5; ++i) {
    const Tensor& t = *call.inputs[i];
    if (t.dtype() != DType::kFloat || t.dims() != Dims{dims[1]}) return {};
    inputs[i] = t.data<float>().data();
  }
  const double epsilon = call.attributes.Float("epsilon", 1e-5F);
  std::vector<ChannelMap<float>> maps;
  for (int64_t c = 0; c < dims[1]; ++c) {
    maps.emplace_back(inputs[3][c], inputs[4][c], epsilon, inputs[1][c], inputs[2][c]);
  }
  int64_t plane = 1;
  for (size_t i = 2; i < dims.size(); ++i) plane *= dims[i];
  return [maps = std::move(maps), plane, channels = dims[1]](float* data, int64_t begin, int64_t count) {
    for (int64_t done = 0; done < count;) {
      const int64_t at = begin + done, run = std::min(count - done, plane - at % plane);
      const ChannelMap<float> map = maps[static_cast<size_t>(at / plane % channels)];
      for (int64_t i = 0; i < run; ++i) data[done + i] = map(data[done + i]);
      done += run;
    }
  };
}

}  // namespace

const OpDef& BatchNormalizationOp() {
  static const OpDef def = {
      .name = "BatchNormalization",
      .since = {6, 7, 9, 14, 15},
      .min_inputs = 5,
      .eval = EvalBatchNorm,
      .role = Requantize{},
      .exactness = Exactness::kRounding,
      .summary = "Normalisation of each channel by given statistics or, in training, its own",
      .as_tail = BatchNormTail,
  };
  return def;
}

}  // namespace quant
