// What is known before a run of the small integer tensors that shapes are computed with: each element a number, a
// polynomial over dimensions, or nothing. Found backwards from a value through the operators that exporters compute
// shapes with; any other operator gives nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "libquant/ir/graph.h"
#include "passes/shape/dim_expr.h"

namespace quant {

// Of a scalar (one element) or a vector.
struct ShapeValue {
  bool scalar = false;
  std::vector<std::optional<DimExpr>> elements;

  // The numbers, when all are known.
  std::optional<std::vector<int64_t>> Numbers() const;
};

// Good for one state of the graph. `opset`: of the default domain. In the body of a function shapes are not believed:
// calls may differ.
class ShapeValues {
 public:
  ShapeValues(const Graph& graph, int64_t opset) : graph_(graph), opset_(opset) {}

  // nullptr when not even the number of elements is known, or the value is no scalar or vector of integers or bools.
  const ShapeValue* Of(ValueId value);
  // Dimension `axis` of a value; the same symbol for the same dimension. nullopt when the rank is not known or is less.
  std::optional<DimExpr> DimOf(ValueId value, size_t axis) const;
  // The rank, where shapes are believed.
  std::optional<size_t> RankOf(ValueId value) const;

 private:
  using Found = std::optional<ShapeValue>;
  Found Find(ValueId value);
  Found FindByNode(const Node& node);
  Found OfConstant(ValueId value) const;
  Found OfShape(const Node& node) const;
  Found OfSize(const Node& node) const;
  Found OfGather(const Node& node);
  Found OfSlice(const Node& node);
  Found OfConcat(const Node& node);
  Found OfReshaped(const Node& node);
  Found OfCast(const Node& node);
  Found OfArithmetic(const Node& node);
  Found OfWhere(const Node& node);
  Found OfReduceProd(const Node& node);

  const Graph& graph_;
  int64_t opset_;
  int depth_ = 0;
  std::unordered_map<ValueId, Found> memo_;  // nodes are stable: references stay good
};

}  // namespace quant
