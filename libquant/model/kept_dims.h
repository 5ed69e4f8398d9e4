// Shapes that the IR carries as bytes of the file (the `extra`s of graph.h): of constants' infos, of outputs that are
// inputs or outer values, of sequences and optionals, of type attributes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Asks `number_of` about every named dimension in them, and puts the number it gives in the name's place. BugError when
// what was kept does not parse.
Status BindKeptDims(Graph& graph, const std::function<std::optional<int64_t>(const std::string& name)>& number_of);

}  // namespace quant
