// Opset conversion by our own table (opset.def), applied to our graph, bodies and functions included: names,
// metadata and unknown fields survive. ONNX's converter is only a second opinion in tests.
#pragma once

#include <cstdint>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Raises the default domain's opset to `target`; does nothing when it is there or above. The IR version rises to
// the opset's minimum. Unsupported, naming the operator and versions, when a step has no row.
Status RaiseOpset(Model& model, int64_t target);

// The least IR version for an opset of the default domain.
int64_t MinIrVersion(int64_t opset);

}  // namespace quant
