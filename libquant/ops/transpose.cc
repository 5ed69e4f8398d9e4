// Operators that move elements to other places by strides: Transpose, Slice, Expand, Tile, DepthToSpace, SpaceToDepth.
#include <algorithm>
#include <numeric>

#include "libquant/base/checked.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/exact_op.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

// Output 0 of `dims`, read from x by strides.
Status EmitStrided(KernelContext& context, const Tensor& x, int64_t base, const Dims& dims,
                   const std::vector<int64_t>& strides, const Dims& shown_as) {
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), shown_as));
  if (out->size() > 0) StridedCopy(x.bytes().data(), base, dims, strides, element, out->mutable_bytes().data());
  return OkStatus();
}

Status EvalTranspose(KernelContext& context) {
  const Tensor& x = context.in(0);
  std::vector<int64_t> perm = context.attributes().Ints("perm");
  if (!context.attributes().Has("perm")) {
    perm.resize(x.dims().size());
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return DataError("perm [{}] is no permutation", ToString(perm));
  }
  if (perm.size() != x.dims().size()) return DataError("perm [{}] for {}", ToString(perm), Describe(x));
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  Dims dims;
  std::vector<int64_t> moved;
  for (int64_t p : perm) {
    dims.push_back(x.dims()[static_cast<size_t>(p)]);
    moved.push_back(strides[static_cast<size_t>(p)]);
  }
  return EmitStrided(context, x, 0, dims, moved, dims);
}

// Starts and ends are clamped as Python's slices are; steps may be negative.
Status EvalSlice(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const auto starts, IntsFrom(context, 1, "starts"));
  ASSIGN_OR_RETURN(const auto ends, IntsFrom(context, 2, "ends"));
  ASSIGN_OR_RETURN(auto axes, IntsFrom(context, 3, "axes"));
  ASSIGN_OR_RETURN(auto steps, IntsFrom(context, 4, ""));
  if (!starts || !ends || starts->size() != ends->size()) return DataError("starts and ends differ in length");
  const size_t count = starts->size();
  if (!axes) {
    axes.emplace(count);
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!steps) steps.emplace(count, 1);
  if (axes->size() != count || steps->size() != count) return DataError("axes or steps differ from starts in length");
  Dims dims = x.dims();
  std::vector<int64_t> strides = DenseStrides(x.dims());
  int64_t base = 0;
  std::vector<bool> seen(dims.size(), false);
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis((*axes)[i], x.rank()));
    const auto a = static_cast<size_t>(axis);
    if (seen[a]) return DataError("axis {} is named twice", axis);
    seen[a] = true;
    const int64_t dim = x.dims()[a];
    const int64_t step = (*steps)[i];
    if (step == 0 || step == INT64_MIN) return DataError("step {} along axis {}", step, axis);
    if (dim == 0) continue;
    const auto clamp = [&](int64_t v, int64_t low, int64_t high) { return std::clamp(v < 0 ? v + dim : v, low, high); };
    const int64_t start = step > 0 ? clamp((*starts)[i], 0, dim) : clamp((*starts)[i], 0, dim - 1);
    const int64_t end = step > 0 ? clamp((*ends)[i], 0, dim) : clamp((*ends)[i], -1, dim - 1);
    const int64_t span = step > 0 ? end - start : start - end;
    dims[a] = span <= 0 ? 0 : CeilDiv(span, step > 0 ? step : -step);
    if (dims[a] == 0) continue;
    base += start * strides[a];
    if (dims[a] > 1) strides[a] *= step;  // a single element takes no step, however wide
  }
  return EmitStrided(context, x, base, dims, strides, dims);
}

Status EvalExpand(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const Dims wanted, IntsOf(context.in(1)));
  const size_t rank = std::max(wanted.size(), x.dims().size());
  Dims dims(rank, 1);
  std::vector<int64_t> strides(rank, 0);
  const std::vector<int64_t> own = DenseStrides(x.dims());
  for (size_t i = 0; i < rank; ++i) {  // from the back
    const int64_t have = i < x.dims().size() ? x.dims()[x.dims().size() - 1 - i] : 1;
    const int64_t want = i < wanted.size() ? wanted[wanted.size() - 1 - i] : 1;
    if (have != want && have != 1 && want != 1)
      return DataError("{} does not expand to {}", Describe(x), ToString(wanted));
    dims[rank - 1 - i] = have == 1 ? want : have;
    if (have != 1) strides[rank - 1 - i] = own[x.dims().size() - 1 - i];
  }
  return EmitStrided(context, x, 0, dims, strides, dims);
}

// As an Expand between axes: [r0, d0, r1, d1, ...] with stride 0 over repeats.
Status EvalTile(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const Dims repeats, IntsOf(context.in(1)));
  if (repeats.size() != x.dims().size()) return DataError("{} repeats for {}", repeats.size(), Describe(x));
  const std::vector<int64_t> own = DenseStrides(x.dims());
  Dims dims, shown;
  std::vector<int64_t> strides;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const auto total = repeats[i] < 0 ? std::nullopt : CheckedMul(repeats[i], x.dims()[i]);
    if (!total) return DataError("repeats [{}] of {}", ToString(repeats), Describe(x));
    shown.push_back(*total);
    dims.insert(dims.end(), {repeats[i], x.dims()[i]});
    strides.insert(strides.end(), {0, own[i]});
  }
  return EmitStrided(context, x, 0, dims, strides, shown);
}

Status EvalDepthToSpace(KernelContext& context) {
  const Tensor& x = context.in(0);
  const int64_t b = context.attributes().Int("blocksize", 0);
  if (x.rank() != 4 || b < 1 || b > 65536 || x.dims()[1] % (b * b) != 0)
    return DataError("blocksize {} for {}", b, Describe(x));
  const int64_t n = x.dims()[0], c = x.dims()[1] / (b * b), h = x.dims()[2], w = x.dims()[3], plane = h * w;
  const bool crd = context.attributes().String("mode", "DCR") == "CRD";
  // Output [n, c, h, by, w, bx] from input [n, by, bx, c, h, w] (DCR) or [n, c, by, bx, h, w] (CRD).
  const int64_t c_step = crd ? b * b * plane : plane;
  const int64_t b_step = crd ? plane : c * plane;
  return EmitStrided(context, x, 0, {n, c, h, b, w, b}, {c * b * b * plane, c_step, w, b * b_step, 1, b_step},
                     {n, c, h * b, w * b});
}

Status EvalSpaceToDepth(KernelContext& context) {
  const Tensor& x = context.in(0);
  const int64_t b = context.attributes().Int("blocksize", 0);
  if (x.rank() != 4 || b < 1 || b > 65536 || x.dims()[2] % b != 0 || x.dims()[3] % b != 0) {
    return DataError("blocksize {} for {}", b, Describe(x));
  }
  const int64_t n = x.dims()[0], c = x.dims()[1], h = x.dims()[2] / b, w = x.dims()[3] / b, row = x.dims()[3];
  return EmitStrided(context, x, 0, {n, b, b, c, h, w}, {c * h * b * row, row, 1, h * b * row, b * row, b},
                     {n, c * b * b, h, w});
}

}  // namespace

const OpDef& TransposeOp() {
  static const OpDef def = Mover("Transpose", {1, 13, 21, 23, 24, 25}, 1, EvalTranspose, "Axes in another order");
  return def;
}
const OpDef& SliceOp() {
  static const OpDef def = Mover("Slice", {1, 10, 11, 13}, 1, EvalSlice, "A part of each axis");
  return def;
}
const OpDef& ExpandOp() {
  static const OpDef def = Mover("Expand", {8, 13}, 2, EvalExpand, "Repeated along axes of 1");
  return def;
}
const OpDef& TileOp() {
  static const OpDef def = Mover("Tile", {6, 13}, 2, EvalTile, "Repeated along each axis");
  return def;
}
const OpDef& DepthToSpaceOp() {
  static const OpDef def = Mover("DepthToSpace", {1, 11, 13}, 1, EvalDepthToSpace, "Channels into blocks of pixels");
  return def;
}
const OpDef& SpaceToDepthOp() {
  static const OpDef def = Mover("SpaceToDepth", {1, 13}, 1, EvalSpaceToDepth, "Blocks of pixels into channels");
  return def;
}

}  // namespace quant
