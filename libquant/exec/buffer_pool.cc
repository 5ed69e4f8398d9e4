#include "libquant/exec/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// Sizes are rounded up to an eighth of their power of two: few sizes, little waste.
int64_t RoundedSize(int64_t bytes) {
  if (bytes <= 1024) return 1024;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8;
  return CeilDiv(bytes, step) * step;
}

}  // namespace

std::shared_ptr<Buffer> BufferPool::Get(int64_t bytes) {
  const int64_t size = RoundedSize(bytes);
  std::unique_ptr<Buffer> buffer;
  {
    const std::lock_guard lock(shelf_->mutex);
    auto it = shelf_->free.find(size);
    if (it != shelf_->free.end() && !it->second.empty()) {
      buffer = std::move(it->second.back());
      it->second.pop_back();
    }
  }
  if (!buffer) buffer = std::make_unique<Buffer>(size);
  return {buffer.release(), [shelf = shelf_](Buffer* returned) {
            const std::lock_guard lock(shelf->mutex);
            shelf->free[returned->size()].emplace_back(returned);
          }};
}

}  // namespace quant
