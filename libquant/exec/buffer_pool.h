// Buffers that go back to a free list when their last tensor is gone, so that a run after the first asks the system
// for nothing. Safe from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {

class BufferPool {
 public:
  // At least `bytes` large, contents undefined. May outlive the pool.
  std::shared_ptr<Buffer> Get(int64_t bytes);

 private:
  struct Shelf {
    std::mutex mutex;
    std::map<int64_t, std::vector<std::unique_ptr<Buffer>>> free;  // by size
  };
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace quant
