#include "libquant/base/parallel.h"

#include <atomic>
#include <vector>

#include "libquant/base/checked.h"
#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("every index is visited once, for any number of threads, nested calls included") {
  for (int threads : {1, 2, 8}) {
    SetThreads(threads);
    std::vector<std::atomic<int>> seen(1000);
    ParallelFor(10, [&](int64_t i) { ParallelFor(100, [&](int64_t j) { seen[static_cast<size_t>(i * 100 + j)]++; }); });
    for (const auto& s : seen) CHECK(s == 1);
  }
  SetThreads(0);
}

TEST_CASE("products of hostile sizes") {
  const auto product = [](std::initializer_list<int64_t> dims) {
    return CheckedProduct(std::span<const int64_t>(dims.begin(), dims.size()));
  };
  CHECK(product({}) == 1);
  CHECK(product({2, 3}) == 6);
  CHECK(product({INT64_MAX, 2}) == std::nullopt);
  CHECK(product({-1}) == std::nullopt);
  CHECK(product({0, 5}) == 0);
  // An empty tensor may have dims whose product alone would overflow.
  CHECK(product({0, INT64_MAX, INT64_MAX}) == std::nullopt);
}

}  // namespace
}  // namespace quant
