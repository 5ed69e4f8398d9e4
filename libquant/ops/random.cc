// RandomUniform, RandomNormal, those like an input, Bernoulli and Multinomial. The numbers are ours, no other
// runtime's: element i takes number i of SplitMix64's sequence, or numbers 2i and 2i + 1 where it needs two, from the
// bits of `seed` as a float (0 when there is none). So a node always makes the same numbers, also in each turn of a
// Loop.
//   uniform u in [0, 1): a number's upper bits        normal: sqrt(-2 log(1 - u1)) cos(2 pi u2)
#include "libquant/ops/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numbers>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/base/scatter_bits.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

constexpr int64_t kPiece = int64_t{1} << 14;

class RandomNumbers {
 public:
  explicit RandomNumbers(const KernelContext& context)
      : seed_(ScatterBits(std::bit_cast<uint32_t>(context.attributes().Float("seed", 0)))) {}
  // Of so many bits: exact in a type with that many bits of significand, and then never 1.
  double Unit(int64_t i, int bits = 53) const {
    const uint64_t number = ScatterBits(seed_ + static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u);
    return static_cast<double>(number >> (64 - bits)) / static_cast<double>(uint64_t{1} << bits);
  }
  double Normal(int64_t i) const {
    return std::sqrt(-2 * std::log(1 - Unit(2 * i))) * std::cos(2 * std::numbers::pi * Unit(2 * i + 1));
  }

 private:
  uint64_t seed_;
};

int SignificandBits(DType dtype) {
  switch (dtype) {
    case DType::kDouble:
      return 53;
    case DType::kFloat16:
      return 11;
    case DType::kBfloat16:
      return 8;
    default:
      return 24;
  }
}

// out[i] = f(i), on all threads.
template <typename T, typename F>
void FillByIndex(int64_t size, T* out, F f) {
  ParallelFor(CeilDiv(size, kPiece), [&](int64_t piece) {
    for (int64_t i = piece * kPiece; i < std::min(size, (piece + 1) * kPiece); ++i) out[i] = static_cast<T>(f(i));
  });
}

// The type that attribute `dtype` names.
DType TypeOr(const KernelContext& context, DType otherwise) {
  const int64_t number = context.attributes().Int("dtype", static_cast<int64_t>(otherwise));
  return DTypeFromNumber(static_cast<int32_t>(number));
}

template <typename F>
Status FillFloats(KernelContext& context, DType dtype, const Dims& dims, F f) {
  return WithComputeType(dtype, [&](auto zero) -> Status {
    ASSIGN_OR_RETURN(auto y, FloatOutput<decltype(zero)>::Make(context, 0, dtype, dims));
    FillByIndex(y.size(), y.data(), f);
    return y.Finish();
  });
}

Status FillUniform(KernelContext& context, DType dtype, const Dims& dims) {
  const double low = context.attributes().Float("low", 0), high = context.attributes().Float("high", 1);
  const RandomNumbers numbers(context);
  const int bits = SignificandBits(dtype);
  return FillFloats(context, dtype, dims, [=](int64_t i) { return low + (high - low) * numbers.Unit(i, bits); });
}

Status FillNormal(KernelContext& context, DType dtype, const Dims& dims) {
  const double mean = context.attributes().Float("mean", 0), scale = context.attributes().Float("scale", 1);
  const RandomNumbers numbers(context);
  return FillFloats(context, dtype, dims, [=](int64_t i) { return mean + scale * numbers.Normal(i); });
}

Status EvalRandomUniform(KernelContext& context) {
  return FillUniform(context, TypeOr(context, DType::kFloat), context.attributes().Ints("shape"));
}
Status EvalRandomUniformLike(KernelContext& context) {
  return FillUniform(context, TypeOr(context, context.in(0).dtype()), context.in(0).dims());
}
Status EvalRandomNormal(KernelContext& context) {
  return FillNormal(context, TypeOr(context, DType::kFloat), context.attributes().Ints("shape"));
}
Status EvalRandomNormalLike(KernelContext& context) {
  return FillNormal(context, TypeOr(context, context.in(0).dtype()), context.in(0).dims());
}

// 1 with the probability given, else 0.
Status EvalBernoulli(KernelContext& context) {
  const Tensor& x = context.in(0);
  const DType dtype = TypeOr(context, x.dtype());
  std::vector<double> chances(static_cast<size_t>(x.size()));
  RETURN_IF_ERROR(ConvertFloats(x, chances.data()));
  for (double p : chances) {
    if (!(p >= 0 && p <= 1)) return DataError("a probability of {}", p);
  }
  const RandomNumbers numbers(context);
  const auto draw = [&](int64_t i) { return numbers.Unit(i) < chances[static_cast<size_t>(i)] ? 1.0F : 0.0F; };
  const auto fill = [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, dtype, x.dims()));
    FillByIndex(y->size(), y->template mutable_data<T>().data(), draw);
    return OkStatus();
  };
  return dtype == DType::kBool ? fill(bool{}) : WithNumber(dtype, fill);
}

// Classes drawn from a row's unnormalised log-probabilities, by their running sum.
StatusOr<std::vector<double>> RunningSum(const double* row, int64_t classes) {
  const double top = *std::max_element(row, row + classes);
  std::vector<double> sums;
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sums.push_back(sum += std::exp(row[c] - top));
  if (!std::isfinite(sum)) return DataError("log-probabilities that add up to {}", sum);
  return sums;
}

Status EvalMultinomial(KernelContext& context) {
  const Tensor& x = context.in(0);
  const int64_t samples = context.attributes().Int("sample_size", 1);
  if (x.rank() != 2 || x.dims()[1] < 1) return DataError("the input is {}; [batch, classes] is needed", Describe(x));
  if (samples < 1) return DataError("sample_size is {}", samples);
  std::vector<double> chances(static_cast<size_t>(x.size()));
  RETURN_IF_ERROR(ConvertFloats(x, chances.data()));
  const RandomNumbers numbers(context);
  const DType dtype = TypeOr(context, DType::kInt32);
  return WithType<int32_t, int64_t>(dtype, [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, dtype, {x.dims()[0], samples}));
    for (int64_t n = 0; n < x.dims()[0]; ++n) {
      ASSIGN_OR_RETURN(const auto sums, RunningSum(chances.data() + n * x.dims()[1], x.dims()[1]));
      FillByIndex(samples, y->template mutable_data<T>().data() + n * samples, [&](int64_t i) {
        auto it = std::upper_bound(sums.begin(), sums.end(), numbers.Unit(n * samples + i) * sums.back());
        // Rounded up to the whole: the last class that has a chance.
        if (it == sums.end()) it = std::lower_bound(sums.begin(), sums.end(), sums.back());
        return it - sums.begin();
      });
    }
    return OkStatus();
  });
}

OpDef RandomOp(std::string_view name, std::vector<int64_t> since, int min_inputs, Status (*eval)(KernelContext&),
               std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = min_inputs,
          .eval = eval,
          .role = FloatOnly{},
          .exactness = Exactness::kTranscendental,
          .summary = summary};
}

}  // namespace

#define NIBBLE_RANDOM(op, first, inputs, text)                                   \
  const OpDef& op##Op() {                                                        \
    static const OpDef def = RandomOp(#op, {first, 22}, inputs, Eval##op, text); \
    return def;                                                                  \
  }
NIBBLE_RANDOM(Bernoulli, 15, 1, "1 with a given probability, else 0; the same for the same seed")
NIBBLE_RANDOM(Multinomial, 7, 1, "Classes drawn by log-probabilities; the same for the same seed")
NIBBLE_RANDOM(RandomNormal, 1, 0, "Normally distributed numbers; the same for the same seed")
NIBBLE_RANDOM(RandomNormalLike, 1, 1, "The same, with an input's shape")
NIBBLE_RANDOM(RandomUniform, 1, 0, "Uniformly distributed numbers; the same for the same seed")
NIBBLE_RANDOM(RandomUniformLike, 1, 1, "The same, with an input's shape")
#undef NIBBLE_RANDOM

bool DrawsRandomNumbers(std::string_view domain, std::string_view op_type) {
  constexpr std::string_view kNames[] = {"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                         "RandomUniformLike", "Bernoulli",        "Multinomial"};
  const bool own = domain.empty() || domain == "ai.onnx";
  return own && std::find(std::begin(kNames), std::end(kNames), op_type) != std::end(kNames);
}

bool MayDrawRandomNumbers(const Node& node, int64_t version) {
  constexpr int64_t kNoTestFlag = 7;  // from then on a Dropout without training_mode (12) is out of training
  if (DrawsRandomNumbers(node.domain, node.op_type)) return true;
  if (node.op_type != "Dropout" || !(node.domain.empty() || node.domain == "ai.onnx")) return false;
  if (version < kNoTestFlag) return node.attributes.Int("is_test", 0) == 0;
  return node.inputs.size() > 2 && node.inputs[2] != kNoValue;
}

}  // namespace quant
