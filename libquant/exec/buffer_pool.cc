#include "libquant/exec/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// Free bytes that are always kept.
constexpr int64_t kKeep = int64_t{16} << 20;
// No machine has more, and sizes up to here are rounded up without overflow.
constexpr int64_t kLargest = int64_t{1} << 60;

// Sizes are rounded up to an eighth of their power of two: few sizes, little waste.
int64_t RoundedSize(int64_t bytes) {
  if (bytes <= 1024) return 1024;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8;
  return CeilDiv(bytes, step) * step;
}

}  // namespace

// A free buffer of this size or up to a half more, or null.
std::unique_ptr<Buffer> BufferPool::Shelf::Take(int64_t size) {
  const auto it = free.lower_bound(size);
  if (it == free.end() || it->first > size + size / 2) return nullptr;
  std::unique_ptr<Buffer> buffer = std::move(it->second.back());
  it->second.pop_back();
  if (it->second.empty()) free.erase(it);
  free_bytes -= buffer->size();
  return buffer;
}

// Frees the largest until at most `limit` bytes lie free.
void BufferPool::Shelf::Trim(int64_t limit) {
  while (free_bytes > limit) {
    const auto it = std::prev(free.end());
    free_bytes -= it->first;
    it->second.pop_back();
    if (it->second.empty()) free.erase(it);
  }
}

std::shared_ptr<Buffer> BufferPool::Get(int64_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  const int64_t size = RoundedSize(bytes);
  std::unique_ptr<Buffer> buffer;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (size > limit_ - shelf_->used_bytes) throw std::bad_alloc();
    buffer = shelf_->Take(size);
    if (!buffer) shelf_->Trim(std::max(kKeep, shelf_->used_bytes + size));
  }
  if (!buffer) buffer = std::make_unique<Buffer>(size);
  {
    const std::lock_guard lock(shelf_->mutex);
    shelf_->used_bytes += buffer->size();
  }
  return {buffer.release(), [shelf = shelf_](Buffer* returned) {
            const std::lock_guard lock(shelf->mutex);
            shelf->used_bytes -= returned->size();
            shelf->free_bytes += returned->size();
            shelf->free[returned->size()].emplace_back(returned);
          }};
}

int64_t BufferPool::free_bytes() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->free_bytes;
}

}  // namespace quant
