#include "libquant/base/memory.h"

#include <unistd.h>

#include <limits>

#include "libquant/base/checked.h"

namespace quant {

int64_t PhysicalMemory() {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  return pages <= 0 || page <= 0 ? kUnknown : CheckedMul(pages, page).value_or(kUnknown);
}

}  // namespace quant
