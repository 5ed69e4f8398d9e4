// How a case of the fuzzer ends.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

// What is done with a model, in the order in which it is done. NameOf names them.
enum class Stage {
  kLoad,
  kPlan,
  kRun,
  kCheck,
  kFuse,
  kFuseForRuntime,
  kFixShape,
  kRaise,
  kLower,
  kDecompose,
  kHalf,
  kBfloat16
};
inline constexpr int kStages = 12;
const char* NameOf(Stage stage);

struct Ending {
  Stage stage = Stage::kLoad;
  Status status;
  // OK, or one of the endings that a file from a stranger may have: exit code 3 or 4.
  bool allowed() const;
};

using Endings = std::vector<Ending>;

// One of the fuzzer's targets. `bytes` are the file's; all that is random follows from them, so that a case is replayed
// from its file alone.
using FuzzTarget = Endings (*)(const std::string& path, const std::string& bytes);

}  // namespace quant
