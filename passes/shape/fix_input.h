// An input of one element that becomes a constant: a sampling rate, a flag, the length of a cache.
#pragma once

#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// `number` is text: "16000", "0.5", "true". UsageError when there is no such input, it may hold more than one element,
// it is an output as well, or its type can't hold the number.
Status FixInput(Graph& graph, const std::string& name, const std::string& number);

}  // namespace quant
