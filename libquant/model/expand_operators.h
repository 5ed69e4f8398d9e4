// Makes a model one of operators that have a kernel, as far as functions get: the model's own, and those by whose body
// ONNX defines an operator (say AffineGrid or SequenceMap). For running, not for writing: the model grows.
#pragma once

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// InlineFunctions, then every node that has no kernel but a function body in ONNX becomes that body, again and again
// until nothing changes; then the types of new values are inferred. What has neither stays. Where a body depends on
// types that inference does not find, the node stays too. DataError as from InferShapes.
Status ExpandOperators(Model& model);

}  // namespace quant
