// Seeded choices, and numbers at which arithmetic on sizes, indices and values goes wrong.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <random>

namespace quant {

using Random = std::mt19937_64;

// In [0, bound); bound > 0. The same on every machine, which std's distributions are not.
inline size_t Below(Random& random, size_t bound) { return static_cast<size_t>(random() % bound); }
// True once in n.
inline bool OneIn(Random& random, size_t n) { return Below(random, n) == 0; }
template <typename Container>
auto& OneOf(Random& random, Container& container) {
  return container[Below(random, container.size())];
}

// Mostly small; else at the edges of 8, 16, 32 and 64 bits.
inline int64_t OddInteger(Random& random) {
  if (!OneIn(random, 3)) return static_cast<int64_t>(Below(random, 14)) - 4;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr std::array<int64_t, 34> kEdges = {16,
                                              31,
                                              32,
                                              33,
                                              64,
                                              127,
                                              128,
                                              -128,
                                              -129,
                                              255,
                                              256,
                                              1000,
                                              65535,
                                              65536,
                                              1 << 20,
                                              1 << 24,
                                              1 << 30,
                                              2147483647,
                                              2147483648,
                                              -2147483648,
                                              -2147483649,
                                              4294967295,
                                              4294967296,
                                              4294967297,
                                              int64_t{1} << 40,
                                              int64_t{1} << 61,
                                              int64_t{1} << 62,
                                              (int64_t{1} << 62) + 1,
                                              kMax,
                                              kMax - 1,
                                              kMin,
                                              kMin + 1,
                                              -(int64_t{1} << 62),
                                              kMax / 2};
  return OneOf(random, kEdges);
}

inline double OddReal(Random& random) {
  if (!OneIn(random, 4)) return static_cast<double>(Below(random, 2001)) / 250.0 - 4;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 16> kEdges = {
      0.0,     -0.0,         kInf,          -kInf,  std::numeric_limits<double>::quiet_NaN(),
      1e30,    -1e30,        1e-30,         1e-42,  3.4e38,
      -3.4e38, 2147483648.0, -2147483904.0, 9.3e18, -9.3e18,
      65520.0};
  return OneOf(random, kEdges);
}

}  // namespace quant
