// Moving elements by dims and strides: what Transpose, Slice, Expand, Tile, Pad and DepthToSpace have in common.
#pragma once

#include <cstdint>

#include "libquant/ops/op_def.h"

namespace quant {

// out[i0, i1, ...] = in[base + i0 * strides[0] + i1 * strides[1] + ...], elements of `element` bytes (1, 2, 4 or 8);
// `out` is dense. Strides in elements, any sign. Every index must be inside the source: the caller has checked.
void StridedCopy(const std::byte* in, int64_t base, const Dims& dims, const std::vector<int64_t>& strides,
                 int64_t element, std::byte* out);

// Row-major strides of dims, in elements.
std::vector<int64_t> DenseStrides(const Dims& dims);
// Bytes of an element; Unsupported for 4-bit types and strings.
StatusOr<int64_t> ElementBytes(const Tensor& tensor);

}  // namespace quant
