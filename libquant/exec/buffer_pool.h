// Buffers that go back to a free list when their last tensor is gone, so that a run after the first asks the system
// for next to nothing. What lies free is bounded by what is in use: shapes that change from run to run don't pile up.
// Safe from several threads.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {

class BufferPool {
 public:
  // `limit`: bytes that may be in use at once.
  explicit BufferPool(int64_t limit = std::numeric_limits<int64_t>::max()) : limit_(limit) {}
  // At least `bytes` large, contents undefined. May outlive the pool. std::bad_alloc beyond the limit.
  std::shared_ptr<Buffer> Get(int64_t bytes);
  // Bytes lying free.
  int64_t free_bytes() const;

 private:
  struct Shelf {
    std::mutex mutex;
    std::map<int64_t, std::vector<std::unique_ptr<Buffer>>> free;  // by size, no entry empty
    int64_t free_bytes = 0;
    int64_t used_bytes = 0;
    std::unique_ptr<Buffer> Take(int64_t size);
    void Trim(int64_t limit);
  };
  int64_t limit_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace quant
