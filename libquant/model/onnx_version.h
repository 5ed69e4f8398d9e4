// ONNX's protobuf types, and proof at compile time that they are those of a new enough ONNX: a distribution's own
// headers (1.12, without 4-bit types) must never be taken in silence. Include this instead of onnx/onnx_pb.h.
#pragma once

#include <onnx/onnx_pb.h>

namespace quant {

static_assert(static_cast<int>(onnx::Version::IR_VERSION) >= 12,
              "ONNX 1.19 or newer is needed: set NIBBLE_ONNX_PREFIX, its include folder must come first");
static_assert(static_cast<int>(onnx::TensorProto::INT4) == 22);

}  // namespace quant
