// What the fuzzer does with a file: everything `nibble run` does with a model it was handed, within small limits.
#pragma once

#include <cstdint>
#include <string>

#include "libquant/base/status.h"

namespace quant {

// How far a file got, and why no further.
enum class Stage { kRead, kChecked, kPrepared, kRan };
struct LoadAndRunResult {
  Stage reached = Stage::kRead;  // the last stage that was begun
  Status status;
  // OK, or one of the endings that a file from a stranger may have: exit code 3 or 4.
  bool allowed() const;
};

// Reads and checks the model, expands functions, makes seeded inputs, plans and runs: once on one thread, or on two.
// The seed follows from `seed` alone.
LoadAndRunResult LoadAndRun(const std::string& path, uint64_t seed);

// A seed from the bytes of a file, so that a case is replayed from its file alone.
uint64_t SeedOf(const std::string& bytes);

}  // namespace quant
