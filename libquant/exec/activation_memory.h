// The most bytes of activations alive at once in a run, told from types and shapes: nodes run in the graph's order, as
// the executor's schedule has them, each tensor lives from the node that makes it to its last reader, and an operator
// that works element by element writes over an input that nobody needs any more. Memory that kernels take for
// themselves is not in it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct ActivationOptions {
  bool half = false;                 // float32 counts as 16 bits: the model made half
  std::set<ValueId> elsewhere = {};  // values of the main graph that are counted elsewhere
};

struct ActivationMemory {
  int64_t peak_bytes = 0;
  NodeId at = kNoNode;  // of the main graph: where the peak is
  // Dimensions without a number count as 1; those of inputs are named, each once.
  std::vector<std::string> open_dims;
  int64_t unknown_values = 0;  // left out, as their rank or type is not known
};

// Shapes must have been inferred. A node with bodies takes, beside its own, the peak of its largest body. Values made
// of constants alone are folded before a run and don't count. Sums that overflow stop at the largest number.
ActivationMemory PeakActivations(const Model& model, const ActivationOptions& options = {});

}  // namespace quant
