// Concat and Split: runs of elements put together or taken apart along an axis.
#include "libquant/ops/concat.h"

#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

Status EvalConcat(KernelContext& context) {
  std::vector<const Tensor*> parts;
  parts.reserve(static_cast<size_t>(context.input_count()));
  for (int i = 0; i < context.input_count(); ++i) parts.push_back(context.input(i));
  return ConcatTensors(context, parts, context.attributes().Int("axis", 1));
}

// Sizes of the parts: given (attribute below opset 13, input from there), or equal with a short last one.
StatusOr<std::vector<int64_t>> PartSizes(const KernelContext& context, int64_t dim) {
  ASSIGN_OR_RETURN(auto given, IntsFrom(context, 1, "split"));
  const auto count = static_cast<int64_t>(context.output_count());
  if (!given) {
    const int64_t part = CeilDiv(dim, count);
    if (dim % count != 0 && !context.attributes().Has("num_outputs")) {
      return DataError("an axis of {} is not split into {} equal parts", dim, count);
    }
    given.emplace(static_cast<size_t>(count), part);
    int64_t left = dim;
    for (int64_t& size : *given) left -= size = std::min(size, left);
  }
  int64_t total = 0;
  for (int64_t size : *given) {
    const auto sum = size < 0 ? std::nullopt : CheckedAdd(total, size);
    if (!sum) return DataError("split [{}] is no split", ToString(*given));
    total = *sum;
  }
  if (static_cast<int64_t>(given->size()) != count || total != dim) {
    return DataError("split [{}] of an axis of {} into {} outputs", ToString(*given), dim, count);
  }
  return *given;
}

Status EvalSplit(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, PartSizes(context, x.dims()[static_cast<size_t>(axis)]));
  int64_t at = 0;
  for (int i = 0; i < context.output_count(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    ASSIGN_OR_RETURN(Tensor part, PartAlong(context, x, axis, at, size));
    context.Set(i, std::move(part));
    at += size;
  }
  return OkStatus();
}

}  // namespace

StatusOr<ConcatPlan> PlanConcat(const std::vector<const Tensor*>& parts, int64_t axis_attribute) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == nullptr) return DataError("input {} is left out", i);
  }
  const Tensor& first = *parts[0];
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(axis_attribute, first.rank()));
  const auto a = static_cast<size_t>(axis);
  ConcatPlan plan;
  plan.dims = first.dims();
  plan.dims[a] = 0;
  for (const Tensor* x : parts) {
    Dims like = x->dims();
    if (x->dtype() != first.dtype() || x->rank() != first.rank())
      return DataError("{} beside {}", Describe(*x), Describe(first));
    like[a] = first.dims()[a];
    if (like != first.dims()) return DataError("{} beside {} along axis {}", Describe(*x), Describe(first), axis);
    const auto total = CheckedAdd(plan.dims[a], x->dims()[a]);
    if (!total) return DataError("the result is too large");
    plan.dims[a] = *total;
  }
  if (!CheckedProduct(plan.dims)) return DataError("the result is too large");
  const int64_t inner = ProductOf(plan.dims, a + 1, plan.dims.size());
  plan.outer = ProductOf(plan.dims, 0, a);
  plan.row = plan.dims[a] * inner;
  for (const Tensor* x : parts) plan.runs.push_back(x->dims()[a] * inner);
  return plan;
}

Status ConcatTensors(KernelContext& context, const std::vector<const Tensor*>& parts, int64_t axis) {
  ASSIGN_OR_RETURN(const ConcatPlan plan, PlanConcat(parts, axis));
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(*parts[0]));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, parts[0]->dtype(), plan.dims));
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t run = plan.runs[i] * element;
    for (int64_t o = 0; run > 0 && o < plan.outer; ++o) {
      std::memcpy(out->mutable_bytes().data() + o * plan.row * element + at, parts[i]->bytes().data() + o * run,
                  static_cast<size_t>(run));
    }
    at += run;
  }
  return OkStatus();
}

StatusOr<Tensor> PartAlong(const KernelContext& context, const Tensor& x, int64_t axis, int64_t begin, int64_t length) {
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = length;
  Tensor out = Tensor::FromBuffer(x.dtype(), dims, context.Scratch(BytesFor(x.dtype(), dims).value()));
  if (out.size() > 0) {
    StridedCopy(x.bytes().data(), begin * strides[static_cast<size_t>(axis)], dims, strides, element,
                out.mutable_bytes().data());
  }
  return out;
}

const OpDef& ConcatOp() {
  static const OpDef def = {.name = "Concat",
                            .since = {4, 11, 13},
                            .eval = EvalConcat,
                            .role = SharedScale{},
                            .exactness = Exactness::kExact,
                            .summary = "Tensors one after another along an axis"};
  return def;
}
const OpDef& SplitOp() {
  static const OpDef def = {.name = "Split",
                            .since = {2, 11, 13, 18},
                            .eval = EvalSplit,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "Parts along an axis"};
  return def;
}

}  // namespace quant
