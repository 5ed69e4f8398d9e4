#include "libquant/exec/buffer_pool.h"

#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("a buffer comes back after its last owner is gone") {
  BufferPool pool;
  auto a = pool.Get(100000);
  const std::byte* address = a->data();
  auto b = pool.Get(100000);
  CHECK(b->data() != address);
  a.reset();
  CHECK(pool.free_bytes() >= 100000);
  CHECK(pool.Get(99000)->data() == address);
  CHECK(pool.Get(1000)->data() != address);
}

TEST_CASE("a buffer may outlive its pool") {
  std::shared_ptr<Buffer> kept;
  {
    BufferPool pool;
    kept = pool.Get(10);
  }
  CHECK(kept->size() >= 10);
}

TEST_CASE("what lies free is bounded, however the sizes change") {
  BufferPool pool;
  constexpr int64_t kMiB = int64_t{1} << 20;
  for (int64_t size = 1; size <= 64; size *= 2) pool.Get(size * kMiB);
  pool.Get(kMiB / 2 + 1);  // misses: nothing that small and near lies free
  CHECK(pool.free_bytes() <= 17 * kMiB + kMiB / 2);
}

TEST_CASE("what is in use is bounded, and no size overflows") {
  BufferPool pool(1 << 20);
  const auto half = pool.Get(1 << 19);
  CHECK_THROWS_AS(pool.Get((1 << 19) + 1), std::bad_alloc);
  CHECK(pool.Get(1 << 18) != nullptr);
  CHECK_THROWS_AS(BufferPool().Get(std::numeric_limits<int64_t>::max()), std::bad_alloc);
  CHECK_THROWS_AS(Buffer(std::numeric_limits<int64_t>::max()), std::bad_alloc);
}

}  // namespace
}  // namespace quant
