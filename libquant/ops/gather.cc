// Operators that pick elements by index: Gather, GatherElements, GatherND. Negative indices count from the end.
#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

Status EvalGather(KernelContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& indices = context.in(1);
  if (x.rank() == 0) return DataError("the table is a scalar");
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const auto a = static_cast<size_t>(axis);
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, IndicesInto(indices, x.dims()[a]));
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  Dims dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), std::move(dims)));
  const int64_t outer = ProductOf(x.dims(), 0, a);
  const int64_t run = ProductOf(x.dims(), a + 1, x.dims().size()) * element;
  const auto count = static_cast<int64_t>(picks.size());
  if (out->size() == 0) return OkStatus();
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* from = x.bytes().data() + o * x.dims()[a] * run;
    std::byte* to = out->mutable_bytes().data() + o * count * run;
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * run, from + picks[static_cast<size_t>(i)] * run, static_cast<size_t>(run));
  }
  return OkStatus();
}

Status EvalGatherElements(KernelContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& indices = context.in(1);
  if (indices.rank() != x.rank() || x.rank() == 0)
    return DataError("{} indices for {}", Describe(indices), Describe(x));
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const auto a = static_cast<size_t>(axis);
  for (size_t i = 0; i < x.dims().size(); ++i) {
    if (i != a && indices.dims()[i] > x.dims()[i])
      return DataError("{} indices for {}", Describe(indices), Describe(x));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, IndicesInto(indices, x.dims()[a]));
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), indices.dims()));
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  for (int64_t i = 0; i < out->size(); ++i) {
    int64_t at = 0;
    int64_t rest = i;
    for (size_t d = x.dims().size(); d-- > 0;) {
      const int64_t index = rest % indices.dims()[d];
      rest /= indices.dims()[d];
      at += (d == a ? picks[static_cast<size_t>(i)] : index) * strides[d];
    }
    std::memcpy(out->mutable_bytes().data() + i * element, x.bytes().data() + at * element,
                static_cast<size_t>(element));
  }
  return OkStatus();
}

Status EvalGatherND(KernelContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& indices = context.in(1);
  const int64_t batch = context.attributes().Int("batch_dims", 0);
  if (indices.rank() == 0 || batch < 0 || batch >= std::min(x.rank(), indices.rank())) {
    return DataError("{} indices for {} with {} batch dims", Describe(indices), Describe(x), batch);
  }
  const int64_t depth = indices.dims().back();
  if (depth < 1 || batch + depth > x.rank()) return DataError("indices of {} entries for {}", depth, Describe(x));
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    if (x.dims()[i] != indices.dims()[i])
      return DataError("batch dim {} differs: {} and {}", i, Describe(x), Describe(indices));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, IntsOf(indices));
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  Dims dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + batch + depth, x.dims().end());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), std::move(dims)));
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  const int64_t batches = ProductOf(x.dims(), 0, static_cast<size_t>(batch));
  const int64_t per_batch = batches == 0 ? 0 : indices.size() / depth / batches;
  const int64_t batch_stride = batches == 0 ? 0 : x.size() / batches;
  const int64_t run = ProductOf(x.dims(), static_cast<size_t>(batch + depth), x.dims().size()) * element;
  for (int64_t row = 0; row < batches * per_batch; ++row) {
    int64_t at = row / per_batch * batch_stride;
    for (int64_t d = 0; d < depth; ++d) {
      const auto axis = static_cast<size_t>(batch + d);
      const int64_t dim = x.dims()[axis];
      int64_t index = picks[static_cast<size_t>(row * depth + d)];
      if (index < -dim || index >= dim) return DataError("index {} is outside an axis of {}", index, dim);
      at += (index < 0 ? index + dim : index) * strides[axis];
    }
    std::memcpy(out->mutable_bytes().data() + row * run, x.bytes().data() + at * element, static_cast<size_t>(run));
  }
  return OkStatus();
}

}  // namespace

const OpDef& GatherOp() {
  static const OpDef def = {.name = "Gather",
                            .since = {1, 11, 13},
                            .min_inputs = 2,
                            .eval = EvalGather,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .index_input = IndexInput{.indices = 1, .table = 0, .axis_attribute = "axis"},
                            .summary = "Slices picked along an axis"};
  return def;
}
const OpDef& GatherElementsOp() {
  static const OpDef def = {.name = "GatherElements",
                            .since = {11, 13},
                            .min_inputs = 2,
                            .eval = EvalGatherElements,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .index_input = IndexInput{.indices = 1, .table = 0, .axis_attribute = "axis"},
                            .summary = "Elements picked along an axis"};
  return def;
}
const OpDef& GatherNDOp() {
  static const OpDef def = {.name = "GatherND",
                            .since = {11, 12, 13},
                            .min_inputs = 2,
                            .eval = EvalGatherND,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "Slices picked by index vectors"};
  return def;
}

}  // namespace quant
