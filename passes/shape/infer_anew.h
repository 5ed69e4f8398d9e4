// Inference after a change: as if for the first time, since what was inferred of a value before is never made more
// precise.
#pragma once

#include <map>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Shapes that nodes give their outputs, by value.
using NodeShapes = std::map<ValueId, Shape>;

// Takes the shapes of everything that nodes make, bodies included; `keep_outputs`: but for those of the main graph's
// outputs, which the model promises.
NodeShapes ForgetShapes(Graph& graph, bool keep_outputs);

// Infers all shapes again, then takes back what was known better (numbers and names of dimensions that the file gave),
// and gives the results of Reshapes the dimensions that are known of their computed targets. DataError as from
// InferShapes.
Status InferAnew(Model& model);

}  // namespace quant
