#include "libquant/ops/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"

namespace quant {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 16;

template <typename T>
void CopyRow(const std::byte* in, int64_t at, int64_t stride, int64_t length, std::byte* out) {
  const T* from = reinterpret_cast<const T*>(in) + at;
  T* to = reinterpret_cast<T*>(out);
  if (stride == 0) {
    std::fill(to, to + length, *from);
  } else {
    for (int64_t i = 0; i < length; ++i) to[i] = from[i * stride];
  }
}

void CopyElements(const std::byte* in, int64_t at, int64_t stride, int64_t length, int64_t element, std::byte* out) {
  if (stride == 1) {
    std::memcpy(out, in + at * element, static_cast<size_t>(length * element));
  } else if (element == 4) {
    CopyRow<uint32_t>(in, at, stride, length, out);
  } else if (element == 8) {
    CopyRow<uint64_t>(in, at, stride, length, out);
  } else if (element == 2) {
    CopyRow<uint16_t>(in, at, stride, length, out);
  } else {
    CopyRow<uint8_t>(in, at, stride, length, out);
  }
}

// Axes of 1 dropped, neighbours that are one run merged.
void Simplify(Dims& dims, std::vector<int64_t>& strides) {
  Dims new_dims;
  std::vector<int64_t> new_strides;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!new_dims.empty() && new_strides.back() == strides[i] * dims[i]) {
      new_dims.back() *= dims[i];
      new_strides.back() = strides[i];
    } else {
      new_dims.push_back(dims[i]);
      new_strides.push_back(strides[i]);
    }
  }
  if (new_dims.empty()) {
    new_dims.push_back(1);
    new_strides.push_back(1);
  }
  dims = std::move(new_dims);
  strides = std::move(new_strides);
}

}  // namespace

void StridedCopy(const std::byte* in, int64_t base, const Dims& full_dims, const std::vector<int64_t>& full_strides,
                 int64_t element, std::byte* out) {
  Dims dims = full_dims;
  std::vector<int64_t> strides = full_strides;
  Simplify(dims, strides);
  int64_t size = 1;
  for (int64_t d : dims) size *= d;
  if (size == 0) return;
  const int64_t length = dims.back();
  const int64_t rows = size / length;
  const int64_t group = std::max<int64_t>(1, kPieceBytes / (length * element));
  ParallelFor(CeilDiv(rows, group), [&](int64_t job) {
    for (int64_t r = job * group; r < std::min(rows, (job + 1) * group); ++r) {
      int64_t at = base;
      int64_t rest = r;
      for (size_t axis = dims.size() - 1; axis-- > 0;) {
        at += rest % dims[axis] * strides[axis];
        rest /= dims[axis];
      }
      CopyElements(in, at, strides.back(), length, element, out + r * length * element);
    }
  });
}

std::vector<int64_t> DenseStrides(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

StatusOr<int64_t> ElementBytes(const Tensor& tensor) {
  const int bits = InfoOf(tensor.dtype()).bits;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
    return Unsupported("elements of type {} are not supported here", NameOf(tensor.dtype()));
  }
  return bits / 8;
}

}  // namespace quant
