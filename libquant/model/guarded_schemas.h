// ONNX's schemas, with inference that survives attributes and lengths it takes for sound. Some of ONNX's inference
// functions divide by an attribute or use it as an index before anyone has looked at it, and some make a list as long
// as a tensor is said to be. Operators are named here as the faults are those of ONNX's functions, one by one: nothing
// that ops/ knows of them.
#pragma once

#include <onnx/defs/schema.h>

namespace quant {

// ONNX's registry, except that inference of the operators at risk fails, like that of any node that makes no sense,
// where ONNX's own would leave its memory, fill it, or divide by zero; and values are followed only through tensors
// short enough to be a shape.
const onnx::ISchemaRegistry& GuardedSchemas();

}  // namespace quant
