// Reading a float weight (float32, float16, bfloat16; owned or a range of a file) piece by piece as panels of
// [reduction, channels], whichever of the two is contiguous in the tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"
#include "libquant/numerics/column_kernels.h"
#include "libquant/numerics/weight_producer.h"

namespace quant {

// A rectangle of the weight: reduction [k, k + panel.rows), channels [c, c + panel.columns). NaNs and infinities read
// as 0; where infinities were is listed, so that what they are clamped to can be put there later.
struct WeightTile {
  struct Infinity {
    int64_t row;
    int64_t column;
    bool negative;
  };
  int64_t k = -1;
  int64_t c = -1;
  Panel panel;
  int64_t non_finite = 0;
  std::vector<Infinity> infinities;  // by row

  // Storage, reused from tile to tile.
  std::vector<float> floats;
  std::vector<float> rows;
  std::vector<std::byte> raw;

  std::span<const Infinity> InfinitiesOf(int64_t first, int64_t count) const;
  // Infinities of the tile's rows [first, first + count) become -limit[c] or limit[c] of their column.
  void PlaceInfinities(int64_t first, int64_t count, const float* limit);
};

class WeightSource {
 public:
  // `tensor` must outlive this; it is not deferred.
  WeightSource(const Tensor& tensor, const MatrixView& view) : tensor_(tensor), view_(view) {}

  bool channels_contiguous() const { return view_.inner == 0 && view_.channel_stride == 1; }
  // `count` elements from `first` on, in the order they are stored.
  Status ReadFlat(int64_t first, int64_t count, float* out, std::vector<std::byte>& raw) const;
  // The whole weight where it lies in memory as float32; else null.
  const float* OwnedFloats() const;
  // Owned float32 with contiguous channels is not copied (unless it has NaNs or infinities).
  Status ReadTile(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const;

 private:
  Status ReadRows(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const;
  Status ReadTransposed(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const;
  Status ReadRuns(int64_t k, int64_t rows, int64_t c, int64_t columns, WeightTile& tile) const;

  const Tensor& tensor_;
  MatrixView view_;
};

}  // namespace quant
