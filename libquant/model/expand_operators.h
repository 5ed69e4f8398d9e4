// Makes a model one of operators that have a kernel, as far as functions get: the model's own, and those by whose body
// ONNX defines an operator (say AffineGrid or SequenceMap). For running, not for writing: the model grows. Also makes
// operators that the caller chooses into basic ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// InlineFunctions, then every node that has no kernel but a function body in ONNX becomes that body, again and again
// until nothing changes; then the types of new values are inferred. What has neither stays. Where a body depends on
// types that inference does not find, the node stays too. DataError as from InferShapes.
Status ExpandOperators(Model& model);

// Whether an operator of a domain's version is to become its body.
using WantsBody = std::function<bool(const std::string& domain, const std::string& op_type, int64_t version)>;

// The same for any choice of operators.
Status ExpandOperatorsWhere(Model& model, const WantsBody& wants);

// The least opset of the default domain for which ONNX has a body of the operator; nullopt when there is none at all.
std::optional<int64_t> OpsetOfBody(const std::string& domain, const std::string& op_type, int64_t version);

}  // namespace quant
