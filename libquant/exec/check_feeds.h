// Whether what a caller feeds is what a model takes.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/ir/input_spec.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

// DataError when a feed is missing, unknown, or of another dtype, rank or dim than the spec, or when one symbol has
// two sizes. `inputs` are those that must be fed.
Status CheckFeeds(const Graph& graph, const std::vector<InputSpec>& inputs, const NamedTensors& feeds);

}  // namespace quant
