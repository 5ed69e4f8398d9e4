// What the rewrites of opset.def have in common: mending one node of a graph, in place.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

class NodeRewrite {
 public:
  NodeRewrite(Graph& graph, NodeId node) : graph_(graph), id_(node) {}

 protected:
  Node& node() { return graph_.node(id_); }
  ValueId Constant(const std::string& hint, Tensor tensor) {
    return graph_.AddConstant(hint, std::move(tensor), node().region);
  }
  // Unsupported when the attribute is a function's parameter: then its value is not known here.
  Status CheckKnown(std::string_view attribute);
  // A node just before this one; returns its only output.
  ValueId Before(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes);
  // A node just behind this one that takes over output 0, its name and readers; this node's output becomes a new value,
  // which is input 0 of the node made.
  void Behind(const std::string& op_type, std::vector<ValueId> further_inputs, Attributes attributes);
  // The attribute, when it is there, as an int64 vector at input `index`; it goes.
  Status IntsToInput(std::string_view attribute, int32_t index);
  // A scalar of the type of input 0.
  StatusOr<Tensor> ScalarLikeInput(float value);
  bool IsEmptyConstant(size_t input) const;
  bool HasInput(size_t input) const;
  // The integers of an input; Unsupported when it is no constant.
  StatusOr<std::vector<int64_t>> ConstantInts(size_t input) const;
  // The input's rank; Unsupported when it is not known.
  StatusOr<int64_t> RankOf(size_t input) const;

  Graph& graph_;
  NodeId id_;
};

}  // namespace quant
