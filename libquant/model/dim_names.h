// Names of dimensions.
#pragma once

#include "libquant/ir/shape.h"

namespace quant {

// Whether a name says that two dimensions are equal. ONNX's inference calls what it knows nothing of "unk__N", by one
// function with one prefix, anew in each run: such names of different runs, in a file or a graph, mean nothing to one
// another. A dimension that the file's author called so counts as nameless, which is always safe.
inline bool HasMeaningfulName(const Dim& dim) { return !dim.symbol.empty() && dim.symbol.rfind("unk__", 0) != 0; }

}  // namespace quant
