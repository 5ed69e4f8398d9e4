// The turn of rotary embeddings, on one head of one step.
#pragma once

#include <cstdint>

namespace quant {

struct RotaryHead {
  int64_t head_size = 0;
  int64_t dim = 0;  // elements of a head that are turned: even, at most head_size
  bool interleaved = false;
};

// `cos` and `sin` hold dim / 2 elements. In place or into another head.
void TurnHead(const RotaryHead& rotary, const float* x, const float* cos, const float* sin, float* y);

}  // namespace quant
