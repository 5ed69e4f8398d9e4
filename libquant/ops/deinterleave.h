// Every n-th element of a row.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quant {

// out[i] = in[i * stride]. Short runs are not worth a call.
template <typename T>
void CopyEveryNth(const T* in, int64_t stride, int64_t count, T* out) {
  if (stride == 1 && count >= 64) {
    std::copy(in, in + count, out);
  } else if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i];
  } else if (stride == 2) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[2 * i];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
  }
}

}  // namespace quant
