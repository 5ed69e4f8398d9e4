// Which nodes and which of their inputs and outputs become half (float16 or bfloat16) when a model does.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/model/signature.h"

namespace quant {

struct HalfOptions {
  DType type = DType::kFloat16;       // or kBfloat16
  bool io_half = false;               // graph inputs and outputs become half too
  std::vector<std::string> keep_ops;  // operators that stay float32, besides KeptOperators()
  std::vector<std::string> keep;      // RE2 patterns on names of nodes that do
  // Makers of the values of these names do, and why. Names the model lacks have no effect.
  std::map<std::string, std::string> keep_makers = {};
};

// Operators that stay float32 by default: their sums or their range are too wide for half.
const std::set<std::string>& KeptOperators();

// What a node makes of one of its inputs or outputs. kAny: as it comes.
enum class HalfArg : uint8_t { kFloat, kHalf, kAny };

struct HalfNodePlan {
  bool half = false;  // at least one of its float32 values becomes half
  // Why it stays float32; empty for nodes that are half or have no float32 values. An If, Loop or Scan may be half for
  // some of what goes in and out, and stay float32 for the rest.
  std::string kept;
  std::vector<HalfArg> inputs, outputs;  // of float32 values; others say kAny
};

struct HalfPlan {
  std::vector<HalfNodePlan> nodes;                      // by NodeId; entries of removed nodes are empty
  std::set<ValueId> body_inputs;                        // that become half
  std::set<std::pair<RegionId, int32_t>> body_outputs;  // the same, by position
};

// UsageError when an operator or pattern to keep is not in the model.
StatusOr<HalfPlan> PlanHalf(const Model& model, const HalfOptions& options);

}  // namespace quant
