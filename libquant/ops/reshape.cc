// Operators that give a tensor other dims: no data moves.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/exact_op.h"

namespace quant {
namespace {

Status SetReshaped(KernelContext& context, Dims dims) {
  const Tensor& x = context.in(0);
  if (CheckedProduct(dims) != x.size())
    return DataError("{} has not as many elements as {}", ToString(dims), Describe(x));
  context.Set(0, x.Reshaped(std::move(dims)));
  return OkStatus();
}

// 0 keeps the input's dim (unless allowzero), one -1 takes what is left.
Status EvalReshape(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(Dims dims, IntsOf(context.in(1)));
  const bool keep_zero = context.attributes().Int("allowzero", 0) != 0;
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !keep_zero) {
      if (i >= x.dims().size()) return DataError("shape {} keeps dim {} of {}", ToString(dims), i, Describe(x));
      dims[i] = x.dims()[i];
    }
    if (dims[i] == -1) {
      if (open) return DataError("shape {} leaves two dims open", ToString(dims));
      open = i;
      continue;
    }
    const auto product = dims[i] < 0 ? std::nullopt : CheckedMul(known, dims[i]);
    if (!product) return DataError("shape {} is no shape", ToString(dims));
    known = *product;
  }
  if (open) {
    if (known == 0 || x.size() % known != 0) return DataError("{} does not fit into {}", Describe(x), ToString(dims));
    dims[*open] = x.size() / known;
  }
  return SetReshaped(context, std::move(dims));
}

Status EvalFlatten(KernelContext& context) {
  const Tensor& x = context.in(0);
  int64_t axis = context.attributes().Int("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) return DataError("axis {} is outside {}", axis, Describe(x));
  const auto cut = static_cast<size_t>(axis);
  return SetReshaped(context, {ProductOf(x.dims(), 0, cut), ProductOf(x.dims(), cut, x.dims().size())});
}

Status EvalSqueeze(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(auto axes, IntsFrom(context, 1, "axes"));
  std::vector<int64_t> gone;
  if (axes) {
    ASSIGN_OR_RETURN(gone, NormalizeAxes(*axes, x.rank()));
  }
  Dims dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const int64_t dim = x.dims()[static_cast<size_t>(i)];
    const bool named = std::binary_search(gone.begin(), gone.end(), i);
    if (named && dim != 1) return DataError("dim {} of {} is not 1", i, Describe(x));
    if (!named && (axes || dim != 1)) dims.push_back(dim);
  }
  return SetReshaped(context, std::move(dims));
}

Status EvalUnsqueeze(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(auto axes, IntsFrom(context, 1, "axes"));
  if (!axes) return DataError("no axes are given");
  const int64_t rank = x.rank() + static_cast<int64_t>(axes->size());
  ASSIGN_OR_RETURN(const std::vector<int64_t> sorted, NormalizeAxes(*axes, rank));
  Dims dims;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    dims.push_back(std::binary_search(sorted.begin(), sorted.end(), i) ? 1 : x.dims()[next++]);
  }
  return SetReshaped(context, std::move(dims));
}

Status EvalIdentity(KernelContext& context) {
  context.Set(0, context.in(0));
  return OkStatus();
}

}  // namespace

const OpDef& ReshapeOp() {
  static const OpDef def =
      Mover("Reshape", {5, 13, 14, 19, 21, 23, 24, 25}, 2, EvalReshape, "The same elements under other dims");
  return def;
}
const OpDef& FlattenOp() {
  static const OpDef def =
      Mover("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, 1, EvalFlatten, "A matrix, split at an axis");
  return def;
}
const OpDef& SqueezeOp() {
  static const OpDef def = Mover("Squeeze", {1, 11, 13, 21, 23, 24, 25}, 1, EvalSqueeze, "Without dims of 1");
  return def;
}
const OpDef& UnsqueezeOp() {
  static const OpDef def = Mover("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, 1, EvalUnsqueeze, "With new dims of 1");
  return def;
}
const OpDef& IdentityOp() {
  static const OpDef def = [] {
    OpDef op = Mover("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, 1, EvalIdentity, "The input");
    op.takes_lists = true;
    return op;
  }();
  return def;
}
}  // namespace quant
