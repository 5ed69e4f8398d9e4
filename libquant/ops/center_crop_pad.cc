// CenterCropPad: axes cut, or filled up with zeros, on both ends to the lengths asked for. An odd element is cut at the
// end and filled in at the end.
#include <algorithm>
#include <cstring>

#include "libquant/ops/axes.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

StatusOr<Dims> WantedDims(const KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, IntsOf(context.in(1)));
  const bool given = context.attributes().Has("axes");
  std::vector<int64_t> axes = context.attributes().Ints("axes");
  for (int64_t i = 0; i < x.rank() && !given; ++i) axes.push_back(i);
  RETURN_IF_ERROR(NormalizeAxes(axes, x.rank()).status());
  if (shape.size() != axes.size()) return DataError("{} lengths for {} axes", shape.size(), axes.size());
  Dims dims = x.dims();
  for (size_t i = 0; i < axes.size(); ++i) {
    dims[static_cast<size_t>(axes[i] < 0 ? axes[i] + x.rank() : axes[i])] = shape[i];
  }
  return dims;
}

Status EvalCenterCropPad(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const Dims dims, WantedDims(context));
  if (dims == x.dims()) {
    context.Set(0, x);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), dims));
  if (y->size() == 0) return OkStatus();
  std::memset(y->mutable_bytes().data(), 0, y->mutable_bytes().size());
  if (x.size() == 0) return OkStatus();
  // The part that both have, and where it begins in each.
  const size_t rank = dims.size();
  const std::vector<int64_t> from_strides = DenseStrides(x.dims()), to_strides = DenseStrides(dims);
  Dims part(rank);
  int64_t from_base = 0, to_base = 0, rows = 1;
  for (size_t i = 0; i < rank; ++i) {
    part[i] = std::min(x.dims()[i], dims[i]);
    from_base += (x.dims()[i] - part[i]) / 2 * from_strides[i];
    to_base += (dims[i] - part[i]) / 2 * to_strides[i];
    if (i + 1 < rank) rows *= part[i];
  }
  const auto bytes = static_cast<size_t>(part.back() * element);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t from = from_base, to = to_base, rest = row;
    for (size_t i = rank - 1; i-- > 0; rest /= part[i]) {
      from += rest % part[i] * from_strides[i];
      to += rest % part[i] * to_strides[i];
    }
    std::memcpy(y->mutable_bytes().data() + to * element, x.bytes().data() + from * element, bytes);
  }
  return OkStatus();
}

}  // namespace

const OpDef& CenterCropPadOp() {
  static const OpDef def = {.name = "CenterCropPad",
                            .since = {18},
                            .min_inputs = 2,
                            .eval = EvalCenterCropPad,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "Axes cut or filled up around their middle"};
  return def;
}

}  // namespace quant
