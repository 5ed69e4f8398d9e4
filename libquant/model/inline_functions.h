// Expands a model's own functions: each call becomes the nodes of the function's body, for those who run or rewrite a
// graph of operators alone. Not for writing: the model grows with every call.
//
//   y = local.f<alpha = 2>(x)     =>     f/t = Elu<alpha = 2>(x)   y = Identity(f/t)
#pragma once

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Calls in the graph, in its bodies and in functions that are called are expanded, and the functions dropped. Where a
// function imports another opset than the model, all are raised to the newest among them first. Names inside get the
// call's name before them. Unsupported when an opset can't be converted or graphs nest more than 64
// deep. FromProto bounds how deep and how often functions call each other.
Status InlineFunctions(Model& model);

}  // namespace quant
