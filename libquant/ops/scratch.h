// Scratch buffers of one size for the bodies of a ParallelFor: as many as run at the same time, made on demand.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "libquant/ops/op_def.h"

namespace quant {

class ScratchPool {
 public:
  ScratchPool(const KernelContext& context, int64_t bytes) : context_(context), bytes_(bytes) {}

  // A buffer for the time of one body; its bytes are what the last user left.
  class Lease {
   public:
    Lease(ScratchPool& pool, std::shared_ptr<Buffer> buffer) : pool_(pool), buffer_(std::move(buffer)) {}
    ~Lease() { pool_.Return(std::move(buffer_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    template <typename T>
    T* as() {
      return reinterpret_cast<T*>(buffer_->data());
    }

   private:
    ScratchPool& pool_;
    std::shared_ptr<Buffer> buffer_;
  };

  Lease Borrow() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return {*this, context_.Scratch(bytes_)};
    auto buffer = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(buffer)};
  }

 private:
  void Return(std::shared_ptr<Buffer> buffer) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
  }

  const KernelContext& context_;
  int64_t bytes_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Buffer>> free_;
};

}  // namespace quant
