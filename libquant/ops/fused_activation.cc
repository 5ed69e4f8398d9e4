// com.microsoft FusedGemm and FusedConv: Gemm and Conv with an activation function (activation.h) on what they give,
// FusedConv with a tensor added before it.
#include <algorithm>
#include <optional>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/activation.h"
#include "libquant/ops/conv_plan.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm_node.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 16384;

// What follows the product; a null sum or no function leaves it out.
struct Epilogue {
  const Tensor* sum = nullptr;
  std::optional<Activation> f;
};

// The function named by `activation`, which may be left out, with these parameters in the order of its own.
StatusOr<std::optional<Activation>> ReadFunction(const Attributes& attributes, const std::vector<float>& parameters) {
  const std::string name = attributes.String("activation", "");
  if (name.empty()) return std::optional<Activation>();
  ASSIGN_OR_RETURN(const ActivationRow row, FindActivation(name));
  Activation f = row.defaults;
  if (row.parameters > 0 && !parameters.empty()) f.alpha = double{parameters[0]};
  if (row.parameters > 1 && parameters.size() > 1) f.beta = double{parameters[1]};
  return std::optional<Activation>(f);
}

// On output 0, which the kernel has just made.
Status Apply(KernelContext& context, const Epilogue& epilogue) {
  Tensor& y = context.outputs()[0];
  if (epilogue.sum != nullptr && (epilogue.sum->dims() != y.dims() || epilogue.sum->dtype() != y.dtype())) {
    return DataError("{} is added to {}", Describe(*epilogue.sum), Describe(y));
  }
  return WithComputeType(y.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto sum, FloatInput<T>::Of(context, epilogue.sum));
    // A float16 is rounded to its type before and after.
    const bool in_place = y.dtype() == DTypeOf<T>();
    const auto copy = in_place ? nullptr : context.Scratch(y.size() * static_cast<int64_t>(sizeof(T)));
    T* values = in_place ? y.template mutable_data<T>().data() : reinterpret_cast<T*>(copy->data());
    if (!in_place) RETURN_IF_ERROR(ConvertFloats(y, values));
    ParallelFor(CeilDiv(y.size(), kPiece), [&](int64_t piece) {
      const int64_t begin = piece * kPiece, count = std::min(kPiece, y.size() - begin);
      for (int64_t i = begin; sum.data() != nullptr && i < begin + count; ++i) values[i] += sum.data()[i];
      if (epilogue.f) Activate<T>(*epilogue.f, T{0}, count, values + begin);
    });
    if constexpr (std::is_same_v<T, float>) {
      if (!in_place) RoundFloats(values, y.size(), y.dtype(), y.mutable_bytes().data());
    }
    return OkStatus();
  });
}

Status EvalFusedGemm(KernelContext& context) {
  const Attributes& attributes = context.attributes();
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (attributes.Has(name)) parameters.push_back(attributes.Float(name, 0));
  }
  Epilogue epilogue;
  ASSIGN_OR_RETURN(epilogue.f, ReadFunction(attributes, parameters));
  RETURN_IF_ERROR(EvalGemm(context));
  return epilogue.f ? Apply(context, epilogue) : OkStatus();
}

Status EvalFusedConv(KernelContext& context) {
  Epilogue epilogue;
  epilogue.sum = context.input(3);
  ASSIGN_OR_RETURN(epilogue.f, ReadFunction(context.attributes(), context.attributes().Floats("activation_params")));
  RETURN_IF_ERROR(EvalConv(context));
  return Apply(context, epilogue);
}

void InferGemm(InferContext& context) {
  if (context.inputs.size() < 2 || context.outputs.empty()) return;
  const auto &a = context.inputs[0].shape, &b = context.inputs[1].shape;
  context.outputs[0].dtype = context.inputs[0].dtype;
  if (!a || !b || a->size() != 2 || b->size() != 2) return;
  context.outputs[0].shape = Shape{(*a)[context.attributes.Int("transA", 0) != 0 ? 1 : 0],
                                   (*b)[context.attributes.Int("transB", 0) != 0 ? 0 : 1]};
}

void InferConv(InferContext& context) {
  if (context.inputs.size() < 2 || context.outputs.empty()) return;
  const auto &x = context.inputs[0].shape, &w = context.inputs[1].shape;
  TypeShape& y = context.outputs[0];
  y.dtype = context.inputs[0].dtype;
  if (!x || !w || x->size() < 3 || w->size() != x->size()) return;
  y.shape = Shape(x->size());
  (*y.shape)[0] = (*x)[0];
  (*y.shape)[1] = (*w)[0];
  const auto input = StaticDims(Shape(x->begin() + 2, x->end())), kernel = StaticDims(Shape(w->begin() + 2, w->end()));
  if (!input || !kernel) return;
  const auto window = ReadWindow(context.attributes, WindowKind::kConv, *input, *kernel);
  for (size_t i = 0; window.ok() && i < window->size(); ++i) (*y.shape)[i + 2] = {(*window)[i].out, ""};
}

}  // namespace

const OpDef& FusedGemmOp() {
  static const SchemaRow schema = {.doc = "Gemm with an activation function on its result",
                                   .inputs = {{"A", "T"}, {"B", "T"}, {"C", "T", true}},
                                   .outputs = {{"Y", "T"}},
                                   .attributes = {{"transA", AttributeKind::kInt},
                                                  {"transB", AttributeKind::kInt},
                                                  {"alpha", AttributeKind::kFloat},
                                                  {"beta", AttributeKind::kFloat},
                                                  {"activation", AttributeKind::kString},
                                                  {"activation_alpha", AttributeKind::kFloat},
                                                  {"activation_beta", AttributeKind::kFloat},
                                                  {"activation_gamma", AttributeKind::kFloat}},
                                   .types = {{"T",
                                              {"tensor(float16)", "tensor(float)", "tensor(double)", "tensor(uint32)",
                                               "tensor(uint64)", "tensor(int32)", "tensor(int64)"}}},
                                   .infer = InferGemm};
  static const OpDef def = {.name = "FusedGemm",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 2,
                            .eval = EvalFusedGemm,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .schema = &schema,
                            .summary = "Gemm with an activation function"};
  return def;
}

const OpDef& FusedConvOp() {
  static const SchemaRow schema = {
      .doc = "Conv with a tensor added to its result and an activation function on the sum",
      .inputs = {{"X", "T"}, {"W", "T"}, {"B", "T", true}, {"Z", "T", true}},
      .outputs = {{"Y", "T"}},
      .attributes = {{"auto_pad", AttributeKind::kString},
                     {"kernel_shape", AttributeKind::kInts},
                     {"dilations", AttributeKind::kInts},
                     {"strides", AttributeKind::kInts},
                     {"pads", AttributeKind::kInts},
                     {"group", AttributeKind::kInt},
                     {"activation", AttributeKind::kString},
                     {"activation_params", AttributeKind::kFloats}},
      .types = {{"T", {"tensor(float16)", "tensor(float)", "tensor(double)"}}},
      .infer = InferConv};
  static const OpDef def = {.name = "FusedConv",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 2,
                            .eval = EvalFusedConv,
                            .role = FloatOnly{},
                            .exactness = Exactness::kTranscendental,
                            .schema = &schema,
                            .summary = "Conv with an added tensor and an activation function"};
  return def;
}

}  // namespace quant
