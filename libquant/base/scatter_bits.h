// Random bits by position: numbers that need no state, so that any of them can be made alone.
#pragma once

#include <cstdint>

namespace quant {

// The output function of SplitMix64: a bijection that scatters counters. Number i of the generator's sequence from a
// seed is ScatterBits(seed + i * 0x9E3779B97F4A7C15).
inline uint64_t ScatterBits(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace quant
