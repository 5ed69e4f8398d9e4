// Every weight of a model with everything that reads it: constant floats of rank >= 2, wherever the file keeps them.
#pragma once

#include <cstdint>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct WeightReader {
  NodeId node = kNoNode;
  int32_t input = 0;
};

struct WeightSite {
  ValueId value = kNoValue;
  std::vector<WeightReader> readers;  // in graph order, Identity looked through
  bool is_output = false;             // a graph or body output shows it too
};

struct WeightInventory {
  std::vector<WeightSite> weights;  // in order of first use
  int64_t small_constants = 0;      // float constants of rank < 2
  int64_t small_elements = 0;
};

WeightInventory FindWeights(const Graph& graph);

}  // namespace quant
