// The fuzzer's operator new: what is larger than a limit fails as it would on a small machine, by std::bad_alloc, and
// not by a sanitizer's report or by filling this one's memory.
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kLimit = std::size_t{1} << 28;

void* TryAllocate(std::size_t size) noexcept { return size > kLimit ? nullptr : std::malloc(size == 0 ? 1 : size); }
void* Allocate(std::size_t size) {
  void* p = TryAllocate(size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return TryAllocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return TryAllocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
