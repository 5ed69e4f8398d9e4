// com.microsoft SkipLayerNormalization and SkipSimplifiedLayerNormalization: a layer normalization over the last axis
// (layer_norm_row.h) of input + skip + bias, which is the fourth output. skip may lack the batch or have it as 1.
#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/layer_norm_row.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

enum Output { kY, kMean, kInverse, kSum };

struct Inputs {
  bool centred;
  int beta, bias;  // -1: the operator has none
};

Status CheckShapes(const KernelContext& context, const Inputs& inputs) {
  const Dims &x = context.in(0).dims(), &skip = context.in(1).dims();
  if (x.size() < 2) return DataError("an input of {}", ToString(x));
  Dims lacking(x.begin() + 1, x.end());
  Dims one = x;
  one[0] = 1;
  if (skip != x && skip != one && skip != lacking) return DataError("a skip of {} for {}", ToString(skip), ToString(x));
  for (int i : {2, inputs.beta, inputs.bias}) {
    const Tensor* row = i < 0 ? nullptr : context.input(i);
    if (row != nullptr && row->dims() != Dims{x.back()}) {
      return DataError("input {} of {} for rows of {}", i, ToString(row->dims()), x.back());
    }
  }
  return OkStatus();
}

// mean and inverse deviation, by row.
Status MakeStatistics(KernelContext& context, int i, FloatOutput<float>& out, float** data) {
  if (!context.wanted(i)) return OkStatus();
  Dims dims = context.in(0).dims();
  dims.back() = 1;
  ASSIGN_OR_RETURN(out, FloatOutput<float>::Make(context, i, DType::kFloat, dims));
  *data = out.data();
  return OkStatus();
}

template <typename T>
Status Run(KernelContext& context, const Inputs& inputs) {
  const Tensor& x = context.in(0);
  const int64_t length = x.dims().back(), rows = length == 0 ? 0 : x.size() / length;
  const int64_t skip_rows = length == 0 ? 0 : context.in(1).size() / length;
  ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
  ASSIGN_OR_RETURN(const auto skip, FloatInput<T>::Of(context, &context.in(1)));
  ASSIGN_OR_RETURN(const auto gamma, FloatInput<T>::Of(context, &context.in(2)));
  const auto optional = [&](int i) { return FloatInput<T>::Of(context, i < 0 ? nullptr : context.input(i)); };
  ASSIGN_OR_RETURN(const auto beta, optional(inputs.beta));
  ASSIGN_OR_RETURN(const auto bias, optional(inputs.bias));
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, kY, x.dtype(), x.dims()));
  FloatOutput<T> sum;
  if (context.wanted(kSum)) {
    ASSIGN_OR_RETURN(sum, FloatOutput<T>::Make(context, kSum, x.dtype(), x.dims()));
  }
  FloatOutput<float> mean_out, inverse_out;
  float *means = nullptr, *inverses = nullptr;
  RETURN_IF_ERROR(MakeStatistics(context, kMean, mean_out, &means));
  RETURN_IF_ERROR(MakeStatistics(context, kInverse, inverse_out, &inverses));
  const LayerNormRow<T> norm = {gamma.data(), beta.data(), double{context.attributes().Float("epsilon", 1e-12F)},
                                inputs.centred};
  ParallelFor(rows, [&](int64_t r) {
    T* to = y.data() + r * length;
    const T *a = in.data() + r * length, *b = skip.data() + r % skip_rows * length;
    for (int64_t i = 0; i < length; ++i) to[i] = a[i] + b[i] + (bias.data() == nullptr ? T{0} : bias.data()[i]);
    if (context.wanted(kSum)) std::copy_n(to, length, sum.data() + r * length);
    const auto statistics = norm(to, length, to);
    if (means != nullptr) means[r] = statistics.mean;
    if (inverses != nullptr) inverses[r] = statistics.inverse;
  });
  if (context.wanted(kSum)) RETURN_IF_ERROR(sum.Finish());
  return y.Finish();
}

Status Eval(KernelContext& context, const Inputs& inputs) {
  RETURN_IF_ERROR(SameTypes(context, {1, 2, 3, 4}));
  RETURN_IF_ERROR(CheckShapes(context, inputs));
  return WithComputeType(context.in(0).dtype(), [&](auto zero) { return Run<decltype(zero)>(context, inputs); });
}

Status EvalSkipLayerNorm(KernelContext& context) { return Eval(context, {true, 3, 4}); }
Status EvalSkipSimplified(KernelContext& context) { return Eval(context, {false, -1, 3}); }

void InferSkipLayerNorm(InferContext& context) {
  if (context.inputs.empty()) return;
  const TypeShape& x = context.inputs[0];
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    TypeShape& out = context.outputs[i];
    out = x;
    if (i != kMean && i != kInverse) continue;
    out.dtype = DType::kFloat;
    if (out.shape && !out.shape->empty()) out.shape->back() = {1, ""};
  }
}

SchemaRow Schema(std::string doc, std::vector<FormalParameter> inputs) {
  return {.doc = std::move(doc),
          .inputs = std::move(inputs),
          .outputs = {{"output", "T"}, {"mean", "U", true}, {"inv_std_var", "U", true}, {"input_skip_bias_sum", "T", true}},
          .attributes = {{"epsilon", AttributeKind::kFloat}},
          .types = {{"T", {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}}, {"U", {"tensor(float)"}}},
          .infer = InferSkipLayerNorm};
}

OpDef Normalization(std::string_view name, Status (*eval)(KernelContext&), const SchemaRow& schema,
                    std::string_view summary) {
  return {.name = name,
          .domain = "com.microsoft",
          .since = {1},
          .min_inputs = 3,
          .eval = eval,
          .role = FloatOnly{},
          .exactness = Exactness::kRounding,
          .schema = &schema,
          .summary = summary};
}

}  // namespace

const OpDef& SkipLayerNormalizationOp() {
  static const SchemaRow schema = Schema(
      "Layer normalization of a sum",
      {{"input", "T"}, {"skip", "T"}, {"gamma", "T"}, {"beta", "T", true}, {"bias", "T", true}});
  static const OpDef def =
      Normalization("SkipLayerNormalization", EvalSkipLayerNorm, schema, "Layer normalization of a sum");
  return def;
}
const OpDef& SkipSimplifiedLayerNormalizationOp() {
  static const SchemaRow schema = Schema("Root mean square normalization of a sum",
                                         {{"input", "T"}, {"skip", "T"}, {"gamma", "T"}, {"bias", "T", true}});
  static const OpDef def = Normalization("SkipSimplifiedLayerNormalization", EvalSkipSimplified, schema,
                                         "Root mean square normalization of a sum");
  return def;
}

}  // namespace quant
