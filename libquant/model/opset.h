// Opset conversion by our own table (opset.def), applied to our graph, bodies and functions included: names, metadata
// and unknown fields survive. ONNX's converter is only a second opinion in tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Raises the default domain's opset to `target`, one version after another, in the graph and in each function that
// imports an older one.
// The IR version rises to the opset's minimum. Unsupported, naming operator and version, when a step has no row or an
// operator is unknown; the model may then be half converted and must be thrown away.
Status RaiseOpset(Model& model, int64_t target);

// The other way: lowers the default domain's opset, in the graph and in each function that imports a newer one. The IR
// version falls to the one that came with `target`, if types and functions allow. Unsupported, naming node and
// operator, when a node has no counterpart; the model may then be half converted and must be thrown away. Types must
// have been inferred.
Status LowerOpset(Model& model, int64_t target);

// The least opset that LowerOpset goes to, and the newest whose steps all have a row.
inline constexpr int64_t kLowestOpset = 13;
inline constexpr int64_t kHighestOpset = 26;

// Raises the IR version; never lowers it. Below IR 4 a file had to list initializers among the graph's inputs; that
// duty ends here, and with it their listing, which newer readers would take for "may be overridden".
void RaiseIrVersion(Model& model, int64_t target);

// Steps above `from` and up to `to` that change an operator and have no row: "Scan 9". What is listed cannot be
// converted.
std::vector<std::string> StepsWithoutRow(int64_t from, int64_t to);

// The same for the way down, from `from` to `to`.
std::vector<std::string> StepsWithoutWayDown(int64_t from, int64_t to);

// The least IR version for an opset of the default domain.
int64_t MinIrVersion(int64_t opset);

}  // namespace quant
