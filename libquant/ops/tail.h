// Operators as tails (op_def.h): done to the results of the operator before, while those are in cache. The arithmetic
// is that of the operator alone, so the bytes are the same either way.
#pragma once

#include <algorithm>
#include <optional>

#include "libquant/ops/op_def.h"

namespace quant {

inline OpDef WithTail(OpDef op, Tail (*as_tail)(const KernelCall&, int, const Dims&)) {
  op.as_tail = as_tail;
  return op;
}

// y = f(y).
template <typename F>
Tail MapTail(F f) {
  return [f](float* data, int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i) data[i] = f(data[i]);
  };
}

// How an operand is repeated over the elements of a result: element i belongs to entry i / inner % count.
struct Repetition {
  int64_t inner = 1;
  int64_t count = 1;
};
// nullopt when the operand does not broadcast to `dims` in one block of axes.
std::optional<Repetition> RepetitionOf(const Dims& operand, const Dims& dims);

// y = f(y, other) with `other` float32 and broadcast to `dims`; empty when it does not repeat in one block.
template <typename F>
Tail CombineTail(const Tensor& other, const Dims& dims, F f) {
  const auto repeated = other.dtype() == DType::kFloat ? RepetitionOf(other.dims(), dims) : std::nullopt;
  if (!repeated) return {};
  return [f, other, r = *repeated](float* data, int64_t begin, int64_t count) {
    const float* entries = other.data<float>().data();
    for (int64_t done = 0; done < count;) {
      const int64_t at = begin + done;
      const int64_t entry = at / r.inner % r.count;
      if (r.inner == 1) {
        const int64_t run = std::min(count - done, r.count - entry);
        for (int64_t i = 0; i < run; ++i) data[done + i] = f(data[done + i], entries[entry + i]);
        done += run;
      } else {
        const int64_t run = std::min(count - done, r.inner - at % r.inner);
        const float x = entries[entry];
        for (int64_t i = 0; i < run; ++i) data[done + i] = f(data[done + i], x);
        done += run;
      }
    }
  };
}

}  // namespace quant
