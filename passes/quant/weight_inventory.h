// Every weight of a graph with everything that reads it: constant floats of rank >= 2, wherever the file keeps them.
// The scales of a quantized model are none.
#pragma once

#include <cstdint>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

// A node that reads a weight, and what it sees of it: Identity, Cast, Transpose, Reshape, Squeeze, Unsqueeze and
// Flatten between the two are looked through. No data moves for that, except where axes of rank above 2 change
// places: then `seen` is deferred.
struct WeightReader {
  NodeId node = kNoNode;
  int32_t input = 0;
  Tensor seen;                      // the weight under the dims that the reader sees, before `transposed`
  bool transposed = false;          // it sees the matrix with rows and columns exchanged
  DType dtype = DType::kUndefined;  // the type it sees
  Dims dims() const;                // the dims it sees
};

struct WeightSite {
  ValueId value = kNoValue;
  std::vector<WeightReader> readers;  // in graph order
  bool is_output = false;             // a graph or body output shows it too
};

struct WeightInventory {
  std::vector<WeightSite> weights;  // in order of first use
  int64_t small_constants = 0;      // float constants of rank < 2
  int64_t small_elements = 0;
};

// Whether the node takes an attribute from the call of the function that it is in: then its value is not known.
bool TakesAttributes(const Node& node);

WeightInventory FindWeights(const Graph& graph);

}  // namespace quant
