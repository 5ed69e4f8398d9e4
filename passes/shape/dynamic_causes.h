// Why a dimension is still no number: the first thing on the way from the inputs that makes it so.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct DynamicDim {
  ValueId value = kNoValue;
  int axis = -1;       // -1: not even the rank is known
  std::string symbol;  // may be empty
  // "dimension 0 (batch) of input x", "the values of input sizes", "NonZero node 'nz'".
  std::string cause;
};

struct DynamicReport {
  std::vector<DynamicDim> outputs;                  // of the graph, in order
  std::vector<std::pair<std::string, int>> causes;  // and how many values they make dynamic, most first
};

// Types must have been inferred.
DynamicReport FindDynamic(const Graph& graph);

}  // namespace quant
