// Which part of a sweep a process does: i of n, given or told by the engine that started it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "libquant/base/status.h"

namespace quant {

struct Shard {
  int64_t index = 1;  // from 1
  int64_t count = 1;
  bool operator==(const Shard&) const = default;
  // Whether the i-th (from 0) of the configurations to measure is this shard's.
  bool Holds(int64_t i) const { return i % count == index - 1; }
  std::string Text() const { return fmt::format("{}/{}", index, count); }
};

// The value of a variable; nullopt when it is not set or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> ProcessEnvironment(const std::string& name);

// "2/8"; "auto": what the first of these says that is set; "auto/8": the same with the count given, where the engine
// does not tell it.
//   NIBBLE_SHARD                                           "2/8"
//   SLURM_ARRAY_TASK_ID, _MIN, _STEP, _COUNT               Slurm's job array, whatever number it starts at
//   JOB_COMPLETION_INDEX (from 0), NIBBLE_SHARD_COUNT      Kubernetes' indexed Job
//   CI_NODE_INDEX (from 1), CI_NODE_TOTAL                  GitLab's parallel jobs
// UsageError that says what is missing or wrong.
StatusOr<Shard> ParseShard(const std::string& text, const Environment& environment = ProcessEnvironment);

}  // namespace quant
