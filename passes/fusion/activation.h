// What fusions of activation functions share: the formula is read by polynomial.h, the operator takes root's place.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "passes/pass.h"
#include "passes/polynomial.h"

namespace quant {

// A polynomial of few terms.
struct Term {
  int x, e;
  double factor;
};
Polynomial Terms(std::initializer_list<Term> terms);

DType TypeOf(const Graph& graph, ValueId value);

// The first reading of what `root` makes as a function of x, outer(x, function(inner(x))), that `accepts`.
std::optional<GatedFunction> FindGated(const Graph& graph, NodeId root, std::string_view function,
                                       const std::function<bool(const GatedFunction&)>& accepts);

// Whether one operator may take the place of the parts: nothing else reads what lies between, all of it lies in root's
// body, x is float32 or float16. Tells of a near miss.
bool MayTakeOver(const PassContext& context, const GatedFunction& gated, NodeId root);

// The operator at root's place, reading x.
GraphEdit TakeOver(NodeId root, ValueId x, std::string_view domain, std::string_view op_type,
                   Attributes attributes = {});

}  // namespace quant
