// What the fuzzer does with a file: everything `nibble run` does with a model it was handed, within small limits.
#pragma once

#include <string>

#include "libquant/base/status.h"

namespace quant {

// How far a file got, and why no further.
enum class Stage { kLoad, kPlan, kRun };
struct LoadAndRunResult {
  Stage reached = Stage::kLoad;  // the last stage that was begun
  Status status;
  // OK, or one of the endings that a file from a stranger may have: exit code 3 or 4.
  bool allowed() const;
};

// Loads the model, makes inputs, plans and runs: once on one thread, or on two. `bytes` are the file's; all that is
// random follows from them, so that a case is replayed from its file alone.
LoadAndRunResult LoadAndRun(const std::string& path, const std::string& bytes);

}  // namespace quant
