// AffineGrid: where GridSample is to read for an affine map of each sample.
//   theta [N, r, r + 1], size [N, C, D1 ... Dr], grid [N, D1 ... Dr, r]; r is 2 or 3
//   grid[n, ...] = theta[n] (x, y, z, 1), innermost coordinate first; element i of D is at -1 + 2 i / (D - 1) with
//   align_corners (an axis of one element at -1), else at (2 i + 1) / D - 1
// A kernel of its own, as the function body by which ONNX defines it fails for a single sample.
#include <algorithm>
#include <array>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

template <typename T>
T PlaceOf(int64_t i, int64_t dim, bool align_corners) {
  if (align_corners) return dim == 1 ? T{-1} : T{2} * static_cast<T>(i) / static_cast<T>(dim - 1) - 1;
  return static_cast<T>(2 * i + 1) / static_cast<T>(dim) - 1;
}

template <typename T>
void MapRow(const T* theta, int64_t rank, const std::array<T, 3>& place, T* out) {
  for (int64_t r = 0; r < rank; ++r, theta += rank + 1) {
    T sum = theta[rank];
    for (int64_t i = 0; i < rank; ++i) sum += theta[i] * place[static_cast<size_t>(i)];
    out[r] = sum;
  }
}

Status EvalAffineGrid(KernelContext& context) {
  const Tensor& theta = context.in(0);
  if (theta.rank() != 3) return DataError("theta is {}", Describe(theta));
  const int64_t rank = theta.dims()[1];
  if ((rank != 2 && rank != 3) || theta.dims()[2] != rank + 1) return DataError("theta is {}", Describe(theta));
  ASSIGN_OR_RETURN(const std::vector<int64_t> size, IntsOf(context.in(1)));
  if (static_cast<int64_t>(size.size()) != rank + 2 || size[0] != theta.dims()[0]) {
    return DataError("a size of {} for theta of {}", ToString(size), ToString(theta.dims()));
  }
  Dims dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(rank);
  const bool align_corners = context.attributes().Int("align_corners", 0) != 0;
  return WithComputeType(theta.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(const auto thetas, FloatInput<T>::Of(context, &theta));
    ASSIGN_OR_RETURN(auto grid, FloatOutput<T>::Make(context, 0, theta.dtype(), dims));
    if (grid.size() == 0) return OkStatus();
    const int64_t depth = rank == 3 ? size[2] : 1, height = size[size.size() - 2], width = size.back();
    ParallelFor(size[0] * depth * height, [&](int64_t row) {
      const T* map = thetas.data() + row / (depth * height) * rank * (rank + 1);
      std::array<T, 3> place = {0, PlaceOf<T>(row % height, height, align_corners),
                                PlaceOf<T>(row / height % depth, depth, align_corners)};
      for (int64_t w = 0; w < width; ++w) {
        place[0] = PlaceOf<T>(w, width, align_corners);
        MapRow(map, rank, place, grid.data() + (row * width + w) * rank);
      }
    });
    return grid.Finish();
  });
}

}  // namespace

const OpDef& AffineGridOp() {
  static const OpDef def = {.name = "AffineGrid",
                            .since = {20},
                            .min_inputs = 2,
                            .eval = EvalAffineGrid,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "The places that GridSample reads for an affine map"};
  return def;
}

}  // namespace quant
