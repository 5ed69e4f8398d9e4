#include "libquant/base/parallel.h"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <memory>

namespace quant {
namespace {

// Made on first use: starting the scheduler costs milliseconds that `--help` should not pay.
std::unique_ptr<tbb::task_arena> arena;
// More threads than cores, when the user says so.
std::unique_ptr<tbb::global_control> limit;
int threads = 0;

}  // namespace

void SetThreads(int count) {
  arena.reset();
  threads = count;
}

int Threads() { return threads > 0 ? threads : tbb::info::default_concurrency(); }

void ParallelFor(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 0) return;
  const int n = Threads();
  if (count == 1 || n == 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  if (!arena) {
    limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, n);
    arena = std::make_unique<tbb::task_arena>(n);
  }
  arena->execute([&] {
    tbb::parallel_for(
        int64_t{0}, count, [&](int64_t i) { body(i); }, tbb::simple_partitioner());
  });
}

}  // namespace quant
