// What a session does before any run: which kernel runs each node, in which order, what is known without running, and
// after which node each tensor is needed no more.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/ops/op_def.h"

namespace quant {

struct Step {
  NodeId node = kNoNode;
  const OpDef* op = nullptr;
  int64_t version = 0;
  // Per output and per input; vector<bool> has no span.
  std::unique_ptr<bool[]> wanted, constant, last_read;
  std::vector<ValueId> reads;       // inputs, and for control flow what its bodies capture
  std::vector<ValueId> last_reads;  // values that nothing reads after this step
  // Steps that may be done to this one's output 0 as tails, one after the other (OpDef::as_tail); each is the only
  // reader of the one before.
  std::vector<size_t> tails;
  NodeMemory memory;
};

struct Schedule {
  std::map<RegionId, std::vector<Step>> regions;  // the main graph and each body
  std::unordered_map<ValueId, Tensor> constants;  // those that runs read, owned
};

// Evaluates a node on its inputs; for folding.
using Evaluator = std::function<StatusOr<std::vector<Tensor>>(Step& step, std::span<const Tensor* const> inputs)>;

// Nodes whose inputs are all constant are evaluated now, where their outputs are at most `max_folded_bytes` large.
StatusOr<Schedule> MakeSchedule(const Model& model, int64_t max_folded_bytes, const Evaluator& evaluate);

}  // namespace quant
