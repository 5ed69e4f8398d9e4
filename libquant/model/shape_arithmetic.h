// Inference through the operators that models compute shapes with, where ONNX's own falls short: it follows such values
// from opset 13 or 14 on only, and believes more of them than it may.
#pragma once

#include <onnx/defs/schema.h>

namespace quant {

// Of Reshape at any opset from 5: `schema` is ONNX's. ONNX's own knows nothing of computed targets below opset 14; from
// there on it names a dimension of the result after the target's element, which is wrong where that is 0 in a run and
// Reshape copies its input's dimension instead. Here a name is given only where both have the same name, so that 0 is
// copied from 0.
void InferReshape(const onnx::OpSchema& schema, onnx::InferenceContext& context);

// What follows the elements of small integer tensors through a node; ONNX's own, or what ONNX has for a newer version
// of the operator that computes the same.
onnx::DataPropagationFunction PropagationOf(const onnx::OpSchema& schema);

}  // namespace quant
