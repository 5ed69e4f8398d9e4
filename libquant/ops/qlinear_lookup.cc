// Operators of com.microsoft that map codes to codes, by a table of all 256: QLinearSigmoid, QLinearLeakyRelu, and
// QLinearConcat, whose parts come each with a scale and a zero point of its own.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/concat.h"
#include "libquant/ops/infer_shapes.h"
#include "libquant/ops/qlinear.h"

namespace quant {
namespace {

constexpr int64_t kPiece = 65536;

void Map(const CodeTable& table, const uint8_t* in, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = table[in[i]];
}

template <typename F>
Status EvalLookup(KernelContext& context, F f) {
  RETURN_IF_ERROR(RequireInputs(context, {3}));
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const CodeScale x_scale, ReadCodeScale(context.in(1), context.input(2), x.dtype()));
  ASSIGN_OR_RETURN(const CodeScale y_scale, ReadCodeScale(context.in(3), context.input(4), x.dtype()));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), x.dims()));
  const CodeTable table = MakeCodeTable(x_scale, y_scale, f);
  const uint8_t* in = x.data<uint8_t>().data();
  uint8_t* out = y->mutable_data<uint8_t>().data();
  ParallelFor(CeilDiv(x.size(), kPiece), [&](int64_t piece) {
    const int64_t begin = piece * kPiece;
    Map(table, in + begin, std::min(kPiece, x.size() - begin), out + begin);
  });
  return OkStatus();
}

Status EvalSigmoid(KernelContext& context) {
  return EvalLookup(context, [](float v) { return 1 / (1 + std::exp(-v)); });
}

Status EvalLeakyRelu(KernelContext& context) {
  const float alpha = context.attributes().Float("alpha", 0.01F);
  return EvalLookup(context, [alpha](float v) { return v >= 0 ? v : alpha * v; });
}

// Inputs: the result's scale and zero point, then tensor, scale and zero point of each part.
Status EvalConcat(KernelContext& context) {
  if (context.input_count() < 5 || context.input_count() % 3 != 2) {
    return DataError("{} inputs are not two and three for each part", context.input_count());
  }
  ASSIGN_OR_RETURN(const CodeScale y_scale, ReadCodeScale(context.in(0), context.in(1)));
  std::vector<const Tensor*> parts;
  std::vector<CodeTable> tables;
  for (int i = 2; i < context.input_count(); i += 3) {
    RETURN_IF_ERROR(RequireInputs(context, {i, i + 1}));
    parts.push_back(context.input(i));
    if (parts.back()->dtype() != y_scale.dtype) {
      return DataError("codes of {} for a result of {}", NameOf(parts.back()->dtype()), NameOf(y_scale.dtype));
    }
    ASSIGN_OR_RETURN(const CodeScale x_scale, ReadCodeScale(context.in(i + 1), context.input(i + 2), y_scale.dtype));
    tables.push_back(MakeCodeTable(x_scale, y_scale, [](float v) { return v; }));
    // Codes of the same scale stay what they are, however odd the scale.
    if (x_scale.scale == y_scale.scale && x_scale.zero_point == y_scale.zero_point) {
      for (size_t code = 0; code < 256; ++code) tables.back()[code] = static_cast<uint8_t>(code);
    }
  }
  ASSIGN_OR_RETURN(const ConcatPlan plan, PlanConcat(parts, context.attributes().Int("axis", 1)));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, y_scale.dtype, plan.dims));
  uint8_t* out = y->mutable_data<uint8_t>().data();
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint8_t* in = parts[i]->data<uint8_t>().data();
    ParallelFor(plan.runs[i] == 0 ? 0 : plan.outer,
                [&](int64_t o) { Map(tables[i], in + o * plan.runs[i], plan.runs[i], out + o * plan.row); });
    out += plan.runs[i];
  }
  return OkStatus();
}

void InferConcat(InferContext& context) {
  if (context.inputs.size() < 5 || context.outputs.empty()) return;
  TypeShape& y = context.outputs[0];
  y.dtype = context.inputs[1].dtype;
  if (!context.inputs[2].shape) return;
  Shape shape = *context.inputs[2].shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = context.attributes.Int("axis", 1);
  if (axis < -rank || axis >= rank) return;
  axis += axis < 0 ? rank : 0;
  Dim& total = shape[static_cast<size_t>(axis)];
  for (size_t i = 5; i < context.inputs.size(); i += 3) {
    const auto& part = context.inputs[i].shape;
    if (!part || part->size() != shape.size()) return;
    const Dim& dim = (*part)[static_cast<size_t>(axis)];
    const auto sum = CheckedAdd(total.value, dim.value);
    total = total.known() && dim.known() && sum ? Dim{*sum, ""} : Dim{};
  }
  y.shape = std::move(shape);
}

SchemaRow LookupSchema(std::string doc) {
  return {.doc = std::move(doc),
          .inputs = {{"X", "T"},
                     {"X_scale", "tensor(float)"},
                     {"X_zero_point", "T", true},
                     {"Y_scale", "tensor(float)"},
                     {"Y_zero_point", "T", true}},
          .outputs = {{"Y", "T"}},
          .types = {{"T", {"tensor(uint8)", "tensor(int8)"}}},
          .infer = InferLikeFirst};
}

}  // namespace

const OpDef& QLinearSigmoidOp() {
  static const SchemaRow schema = LookupSchema("Sigmoid of a quantized tensor, quantized");
  static const OpDef def = QLinear("QLinearSigmoid", 2, EvalSigmoid, schema, "Sigmoid of a quantized tensor");
  return def;
}

const OpDef& QLinearLeakyReluOp() {
  static const SchemaRow schema = [] {
    SchemaRow row = LookupSchema("LeakyRelu of a quantized tensor, quantized");
    row.attributes = {{"alpha", AttributeKind::kFloat}};
    return row;
  }();
  static const OpDef def = QLinear("QLinearLeakyRelu", 2, EvalLeakyRelu, schema, "LeakyRelu of a quantized tensor");
  return def;
}

const OpDef& QLinearConcatOp() {
  static const SchemaRow schema = {
      .doc = "Quantized tensors beside each other along an axis, quantized anew",
      .inputs = {{"Y_scale", "tensor(float)"}, {"Y_zero_point", "T8"}, {"inputs", "TV", false, true}},
      .outputs = {{"Y", "T8"}},
      .attributes = {{"axis", AttributeKind::kInt, true}},
      .types = {{"T8", {"tensor(uint8)", "tensor(int8)"}}, {"TV", {"tensor(uint8)", "tensor(int8)", "tensor(float)"}}},
      .infer = InferConcat};
  static const OpDef def =
      QLinear("QLinearConcat", 5, EvalConcat, schema, "Quantized tensors beside each other, quantized anew");
  return def;
}

}  // namespace quant
