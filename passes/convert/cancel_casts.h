// Removes Casts that change nothing, and pairs that widen and narrow again.
//
//   Cast<to = T>(x: T)                              =>  x
//   Cast<to = T>(Cast<to = W>(x: T)), W wider than T  =>  x
#pragma once

#include "libquant/ir/graph.h"

namespace quant {

// Between float types. Returns how many readers were rewired; what has no reader left is for RemoveUnused.
int CancelCasts(Graph& graph);

}  // namespace quant
