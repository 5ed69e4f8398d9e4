// ONNX's checker and shape inference, run on a skeleton of the model (no weight is copied), with the com.microsoft
// operators we know registered as schemas.
#pragma once

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// ONNX's checker. DataError with its message. Operators of domains it doesn't know are not errors.
Status CheckModel(const Model& model);

// Shape inference with data propagation; fills dtype and shape of every value it can, bodies included, and never
// fails for an operator it can't infer. DataError only when the model contradicts itself.
Status InferShapes(Model& model);

// Whether shapes agree with each other and with what operators want, as runtimes check it when they load a model:
// DataError with the operator that objects. Operators of unknown domains don't.
Status CheckShapes(const Model& model);

// The newest opset the linked ONNX knows.
int64_t NewestOpset();

}  // namespace quant
