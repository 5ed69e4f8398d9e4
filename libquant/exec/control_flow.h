// If, Loop and Scan, given something that runs their bodies.
#pragma once

#include <span>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  // The body's outputs; `inputs` are as many as the body has.
  virtual StatusOr<std::vector<Tensor>> RunBody(RegionId body, std::vector<Tensor> inputs) = 0;
};

// The node's outputs. `inputs` hold null for what is left out. Loops hold what their iterations made, never room for
// a trip count that was only promised. DataError for inputs or bodies that don't fit the operator.
StatusOr<std::vector<Tensor>> RunControlFlow(const Graph& graph, const Node& node,
                                             std::span<const Tensor* const> inputs, BodyRunner& runner);

}  // namespace quant
