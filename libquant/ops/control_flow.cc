// If, Loop and Scan: what they compute is in their bodies, which the executor runs (exec/control_flow.h).
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

OpDef ControlFlow(std::string_view name, std::vector<int64_t> since, int min_inputs, std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = min_inputs,
          .role = Control{},
          .exactness = Exactness::kExact,
          .summary = summary};
}

}  // namespace

const OpDef& IfOp() {
  static const OpDef def = ControlFlow("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, 1, "One of two bodies");
  return def;
}
const OpDef& LoopOp() {
  static const OpDef def =
      ControlFlow("Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, 0, "A body again and again, its outputs stacked");
  return def;
}
const OpDef& ScanOp() {
  static const OpDef def = ControlFlow("Scan", {9, 11, 16, 19, 21, 23, 24, 25}, 1,
                                       "A body for each slice of its inputs, its outputs stacked");
  return def;
}

}  // namespace quant
