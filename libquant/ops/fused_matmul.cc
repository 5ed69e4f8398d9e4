// com.microsoft FusedMatMul: y = alpha * a' * b', NumPy's matmul of operands that may be transposed first: with
// transBatchA, axis 0 of a goes behind the batch axes ([rows, batch..., columns] becomes [batch..., rows, columns]);
// with transA the last two axes then change places. So for b. Vectors stay as they are.
#include <algorithm>
#include <numeric>

#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/matmul.h"

namespace quant {
namespace {

// Where the matrices of an operand are: one is `matrix` elements after another, its rows `stride` apart.
struct OperandView {
  Dims dims;  // once transposed
  int64_t matrix = 0, stride = 0;
  bool transposed = false;
};

OperandView ViewOf(const Dims& dims, bool transposed, bool batch_transposed) {
  OperandView view;
  view.dims = dims;
  if (dims.size() < 2) {
    view.stride = dims.empty() ? 1 : dims[0];
    return view;
  }
  const size_t rank = dims.size();
  view.transposed = transposed;
  const int64_t columns = dims[rank - 1];
  if (batch_transposed && rank > 2) {
    std::rotate(view.dims.begin(), view.dims.begin() + 1, view.dims.end() - 1);
    view.matrix = view.stride = columns;
    for (size_t i = 1; i + 1 < rank; ++i) view.stride *= dims[i];
  } else {
    view.matrix = dims[rank - 2] * columns;
    view.stride = columns;
  }
  if (transposed) std::swap(view.dims[rank - 2], view.dims[rank - 1]);
  return view;
}

// PlanMatMul takes all rows of a for one matrix where it can; here each matrix is on its own.
void OneByOne(const OperandView& a, MatMulPlan& plan) {
  const int64_t rows = a.dims.size() > 1 ? a.dims[a.dims.size() - 2] : 1;
  if (rows == 0 || plan.count != 1 || plan.m == rows) return;
  plan.count = plan.m / rows;
  plan.m = rows;
  plan.a_matrix.resize(static_cast<size_t>(plan.count));
  std::iota(plan.a_matrix.begin(), plan.a_matrix.end(), 0);
  plan.b_matrix.assign(static_cast<size_t>(plan.count), 0);
}

Status EvalFusedMatMul(KernelContext& context) {
  RETURN_IF_ERROR(SameTypes(context, {1}));
  const Tensor &a = context.in(0), &b = context.in(1);
  const Attributes& attributes = context.attributes();
  const auto flag = [&](const char* name) { return attributes.Int(name, 0) != 0; };
  const OperandView left = ViewOf(a.dims(), flag("transA"), flag("transBatchA"));
  OperandView right = ViewOf(b.dims(), flag("transB"), flag("transBatchB"));
  if (b.rank() == 1) right.stride = 1;  // a column
  ASSIGN_OR_RETURN(MatMulPlan plan, PlanMatMul(left.dims, right.dims));
  OneByOne(left, plan);
  const float alpha = attributes.Float("alpha", 1);
  return WithComputeType(a.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto as, FloatInput<T>::Of(context, &a));
    ASSIGN_OR_RETURN(const auto bs, FloatInput<T>::Of(context, &b));
    ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, a.dtype(), plan.out_dims));
    GemmBatch<T>({plan.m, plan.n, plan.k}, plan.count, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      return GemmOperands<T>{{as.data() + plan.a_matrix[at] * left.matrix, left.stride, left.transposed},
                             {bs.data() + plan.b_matrix[at] * right.matrix, right.stride, right.transposed},
                             y.data() + i * plan.m * plan.n,
                             plan.n};
    });
    for (int64_t i = 0; alpha != 1 && i < y.size(); ++i) y.data()[i] *= static_cast<T>(alpha);
    return y.Finish();
  });
}

// [batch..., rows, columns] of matrices whose batch axes are the same; others get a type alone.
void InferFusedMatMul(InferContext& context) {
  if (context.inputs.size() < 2 || context.outputs.empty()) return;
  context.outputs[0].dtype = context.inputs[0].dtype;
  const auto seen = [&](size_t i, const char* transposed, const char* batch) -> std::optional<Shape> {
    std::optional<Shape> shape = context.inputs[i].shape;
    if (!shape || shape->size() < 2) return std::nullopt;
    if (context.attributes.Int(batch, 0) != 0) std::rotate(shape->begin(), shape->begin() + 1, shape->end() - 1);
    if (context.attributes.Int(transposed, 0) != 0) std::swap(shape->back(), (*shape)[shape->size() - 2]);
    return shape;
  };
  const auto a = seen(0, "transA", "transBatchA"), b = seen(1, "transB", "transBatchB");
  if (!a || !b) return;
  const bool alike = a->size() == b->size() && std::equal(a->begin(), a->end() - 2, b->begin());
  if (b->size() != 2 && !alike) return;
  Shape shape = *a;
  shape.back() = b->back();
  context.outputs[0].shape = std::move(shape);
}

}  // namespace

const OpDef& FusedMatMulOp() {
  static const SchemaRow schema = {
      .doc = "Matrix product of operands that are transposed first, times a number",
      .inputs = {{"A", "T"}, {"B", "T"}},
      .outputs = {{"Y", "T"}},
      .attributes = {{"alpha", AttributeKind::kFloat},
                     {"transA", AttributeKind::kInt},
                     {"transB", AttributeKind::kInt},
                     {"transBatchA", AttributeKind::kInt},
                     {"transBatchB", AttributeKind::kInt}},
      .types = {{"T", {"tensor(float16)", "tensor(float)", "tensor(double)", "tensor(bfloat16)"}}},
      .infer = InferFusedMatMul};
  static const OpDef def = {.name = "FusedMatMul",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 2,
                            .eval = EvalFusedMatMul,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .schema = &schema,
                            .summary = "Matrix product with transposes and a scale"};
  return def;
}

}  // namespace quant
