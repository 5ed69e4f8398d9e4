// Weight-only quantization: a verdict for every weight of the model, and the rewrite that follows from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/weight_producer.h"

namespace quant {

enum class VerdictKind { kQuantized, kSkipped, kUnsupported };

// What becomes of one weight: a constant float of rank >= 2 that some node reads. Smaller constants are only counted.
struct WeightVerdict {
  int function = -1;  // index of the model's function whose body holds it; -1: the graph
  ValueId value = kNoValue;
  std::string weight;           // its name in the file, in a function "Function::name"
  std::vector<NodeId> readers;  // nodes that read it
  std::string node;             // label of the first reader
  std::string op_type;          // of the first reader
  Dims dims;
  int64_t elements = 0;
  VerdictKind kind = VerdictKind::kUnsupported;
  std::string rule;     // the user's rule that took it, if one did
  WeightFormat format;  // what that rule, or the options, ask for
  std::string reason;   // which rule skipped it, or why it is not supported; for quantized: the form
  std::string warning;  // what the user should know of a quantized one ("runs slower than float in ...")
  QuantSpec spec;       // quantized only
  int64_t bits = 0;     // codes, scales and zero points of all copies in the file; quantized only
};

struct QuantizePlan {
  std::vector<WeightVerdict> verdicts;  // in order of first use
  int64_t small_constants = 0;          // float constants of rank < 2
  int64_t small_elements = 0;

  int64_t weight_elements() const;
  int64_t quantized_elements() const;
  double coverage() const;         // quantized elements / all weight elements; 1 when there is none
  double bits_per_weight() const;  // bits of quantized weights / quantized elements; 0 when none
};

// A function's body by its index, or the model's graph for -1.
const Graph& GraphOf(const Model& model, int function);
Graph& GraphOf(Model& model, int function);

// Decides; reads names and shapes only, never a weight's bytes. UsageError for a pattern that does not compile, a
// --skip, --skip-op, --only, --include-op or rule that matches nothing, an unknown format or target, an option without
// effect. The model's shapes must have been inferred.
StatusOr<QuantizePlan> PlanWeights(const Model& model, const QuantizeOptions& options);

// Rewrites the model accordingly (raising the opset where the form needs it). New weights are deferred: their bytes
// are made when the model is written or run.
Status ApplyPlan(Model& model, const QuantizeOptions& options, QuantizePlan& plan);

// Bytes of the model's files after that: today's less the float weights and plus what replaces them.
int64_t EstimateBytes(const Model& model, const QuantizePlan& plan, const QuantizeOptions& options);

}  // namespace quant
