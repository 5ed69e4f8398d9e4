// The one way to use threads. Work is split by the caller into pieces that don't depend on the number of
// threads, so results don't either.
#pragma once

#include <cstdint>
#include <functional>

namespace quant {

// Threads used by ParallelFor from now on; 0 means all cores. Call once, before work starts.
void SetThreads(int threads);
int Threads();

// Calls body(i) for every i in [0, count), in any order, on up to Threads() threads, and waits. A call from
// inside a body runs there too. Bodies must not throw.
void ParallelFor(int64_t count, const std::function<void(int64_t)>& body);

}  // namespace quant
