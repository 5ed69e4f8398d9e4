// Every n-th element of a row.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace quant {

// A run that is rarely longer than a few dozen bytes: two moves that may overlap instead of a call.
template <typename T>
void CopyRun(const T* in, int64_t count, T* out) {
  const auto bytes = static_cast<size_t>(count) * sizeof(T);
  const auto ends = [&](auto size) {
    std::memcpy(out, in, size);
    std::memcpy(reinterpret_cast<char*>(out) + bytes - size, reinterpret_cast<const char*>(in) + bytes - size, size);
  };
  if (bytes > 64) {
    std::memcpy(out, in, bytes);
  } else if (bytes >= 32) {
    ends(std::integral_constant<size_t, 32>());
  } else if (bytes >= 16) {
    ends(std::integral_constant<size_t, 16>());
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i];
  }
}

// out[i] = in[i * stride].
template <typename T>
void CopyEveryNth(const T* in, int64_t stride, int64_t count, T* out) {
  if (stride == 1) {
    CopyRun(in, count, out);
  } else if (stride == 2) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[2 * i];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
  }
}

}  // namespace quant
