// Small questions that rules ask of a graph, and what they make edits of. None of them changes anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libquant/ir/edit.h"
#include "libquant/ir/graph.h"

namespace quant {

// The operator of this name in the default domain.
bool IsOp(const Node& node, std::string_view op_type);
bool IsOp(const Node& node, std::string_view domain, std::string_view op_type);

// Input or output i, kNoValue when it is left out or past the end.
ValueId InputOf(const Node& node, size_t i);
ValueId OutputOf(const Node& node, size_t i);

// The node that makes the value, when it is of this operator of the default domain and the value is its output 0; else
// null. Pointers live until the graph changes.
const Node* MadeBy(const Graph& graph, ValueId value, std::string_view op_type);
// The id of the node that makes the value; kNoNode for inputs, constants and kNoValue.
NodeId ProducerOf(const Graph& graph, ValueId value);

// The node that makes the value, when it is of this operator of the default domain and has a first input, and it joins
// `parts`; else kNoNode, and `parts` stay. With `past_casts` Casts and Identities in between are looked through and join
// as well.
NodeId Take(const Graph& graph, ValueId value, std::string_view op_type, std::vector<NodeId>& parts,
            bool past_casts = false);

// Exactly one node reads the value, once, and no region outputs it.
bool HasOneReader(const Graph& graph, ValueId value);
// The only reader of the value; kNoNode when there are more, fewer, or it is a region's output.
NodeId OnlyReader(const Graph& graph, ValueId value);
bool IsRegionOutput(const Graph& graph, ValueId value);

// The constant, or null. It may lie in a file or be deferred: Materialize() before reading elements. Null too for an
// initializer that callers may override (IR 4 and later: one that is also a graph input).
const Tensor* ConstantOf(const Graph& graph, ValueId value);
// A constant float16, bfloat16, float or double of one element.
std::optional<double> ScalarOf(const Graph& graph, ValueId value);
// A constant bool of one element.
std::optional<bool> BoolOf(const Graph& graph, ValueId value);
// A constant of numbers or bools that all equal `number`, at most 65536 of them.
bool IsConstantOf(const Graph& graph, ValueId value, double number);
// A constant of integers, at most 1024 of them.
std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, ValueId value);
// Axes and the like: the attribute of this name, else the constant input i; nullopt when it is an input that is not
// constant. An empty vector when there is neither.
std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, const Node& node, std::string_view attribute,
                                           size_t input);

// In a function's body: an attribute takes its value from the call, so that the node's are not known.
bool HasReferences(const Node& node);

// Dims when all are known.
std::optional<Dims> DimsOf(const Graph& graph, ValueId value);
std::optional<int64_t> RankOf(const Graph& graph, ValueId value);
// Both dimensions are the same number, or have the same name.
bool SameDim(const Dim& a, const Dim& b);
// Both shapes are known and equal, dimension by dimension; symbols count as equal when they have the same name.
bool SameShape(const Graph& graph, ValueId a, ValueId b);

// The two inputs of a commutative node as (other, constant) when exactly one is constant.
std::optional<std::pair<ValueId, ValueId>> SplitConstant(const Graph& graph, const Node& node);

// A constant of one element, an integer too.
std::optional<double> NumberOf(const Graph& graph, ValueId value);
// The same as an operand beside `value`, whose shape stands: the constant has no more axes than `value`.
std::optional<double> NumberBeside(const Graph& graph, ValueId constant, ValueId value);
// Equal up to what rounding to `dtype` and one more operation may change.
bool IsNear(double a, double b, DType dtype);

// Why a rewrite of `last` would not free the other `parts`, nodes that it is computed by: one lies in another region,
// or what it makes is read by a node that is no part or is a region's output. nullopt when all of them would go.
std::optional<std::string> WhyNotFreed(const Graph& graph, const std::vector<NodeId>& parts, NodeId last);

// Whether all readers of `old` may read `with` instead: when `old` is a region's output, `with` must be able to take
// over its name, which inputs, initializers, values of outer regions and other outputs can't.
bool MayReplace(const Graph& graph, ValueId old, ValueId with);

// A node for GraphEdit, without attributes yet.
GraphEdit::NewNode NewNodeOf(std::string_view domain, std::string_view op_type, std::vector<ValueRef> inputs);

}  // namespace quant
