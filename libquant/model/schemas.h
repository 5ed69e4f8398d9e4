// The operators of ops/ that ONNX doesn't define, registered with ONNX so that its checker and inference treat them
// like any other. Only files of libquant/model include this.
#pragma once

namespace quant {

// Idempotent and safe from several threads. Everything that calls ONNX's checker or inference calls this first.
void RegisterSchemas();

}  // namespace quant
