// Gaussian error linear units of com.microsoft, x being the input plus a bias along its last axis, where there is one:
//   Gelu, BiasGelu: 0.5 x (1 + erf(x / sqrt(2)))     FastGelu: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/infer_shapes.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;

// y = f(x + bias), rows of the last axis at a time.
template <typename F>
Status MapBiased(KernelContext& context, F f) {
  const Tensor& x = context.in(0);
  const Tensor* bias = context.input(1);
  RETURN_IF_ERROR(SameTypes(context, {1}));
  if (bias != nullptr && (x.rank() == 0 || bias->dims() != Dims{x.dims().back()})) {
    return DataError("a bias of {} for {}", ToString(bias->dims()), Describe(x));
  }
  return WithComputeType(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
    ASSIGN_OR_RETURN(const auto biases, FloatInput<T>::Of(context, bias));
    ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), x.dims()));
    ParallelFor(CeilDiv(x.size(), kPieceElements), [&](int64_t piece) {
      const int64_t begin = piece * kPieceElements, end = std::min(x.size(), begin + kPieceElements);
      if (bias == nullptr) {
        for (int64_t i = begin; i < end; ++i) out.data()[i] = f(in.data()[i]);
        return;
      }
      const int64_t length = x.dims().back();
      for (int64_t i = begin, j = begin % length; i < end; ++i, ++j) {
        if (j == length) j = 0;
        out.data()[i] = f(in.data()[i] + biases.data()[j]);
      }
    });
    return out.Finish();
  });
}

Status EvalErfGelu(KernelContext& context) {
  return MapBiased(context, [](auto v) {
    using T = decltype(v);
    return T{0.5} * v * (1 + std::erf(v * T{0.70710678118654752440}));
  });
}

Status EvalFastGelu(KernelContext& context) {
  return MapBiased(context, [](auto v) {
    using T = decltype(v);
    return T{0.5} * v * (1 + std::tanh(v * (T{0.035677408136300125} * v * v + T{0.7978845608028654})));
  });
}

std::vector<TypeRow> FloatTypes() {
  return {{"T", {"tensor(float16)", "tensor(float)", "tensor(double)", "tensor(bfloat16)"}}};
}

}  // namespace

const OpDef& MicrosoftGeluOp() {
  static const SchemaRow schema = {.doc = "Gaussian error linear unit",
                                   .inputs = {{"X", "T"}},
                                   .outputs = {{"Y", "T"}},
                                   .types = FloatTypes(),
                                   .infer = InferLikeFirst};
  static const OpDef def = {.name = "Gelu",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 1,
                            .eval = EvalErfGelu,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .schema = &schema,
                            .summary = "Gaussian error linear unit"};
  return def;
}

const OpDef& BiasGeluOp() {
  static const SchemaRow schema = {.doc = "Gaussian error linear unit of a sum",
                                   .inputs = {{"A", "T"}, {"B", "T"}},
                                   .outputs = {{"C", "T"}},
                                   .types = FloatTypes(),
                                   .infer = InferLikeFirst};
  static const OpDef def = {.name = "BiasGelu",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 2,
                            .eval = EvalErfGelu,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .schema = &schema,
                            .summary = "Gaussian error linear unit of input plus bias"};
  return def;
}

const OpDef& FastGeluOp() {
  static const SchemaRow schema = {.doc = "Gaussian error linear unit by tanh, of input plus optional bias",
                                   .inputs = {{"X", "T"}, {"bias", "T", true}},
                                   .outputs = {{"Y", "T"}},
                                   .types = FloatTypes(),
                                   .infer = InferLikeFirst};
  static const OpDef def = {.name = "FastGelu",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 1,
                            .eval = EvalFastGelu,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .schema = &schema,
                            .summary = "Gaussian error linear unit by tanh"};
  return def;
}

}  // namespace quant
