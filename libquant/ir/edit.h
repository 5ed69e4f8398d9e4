// GraphEdit: a rewrite as a value. A rule reads a const Graph and returns one; the driver applies it whole or not
// at all. New values are referred to before they exist by ValueRef.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

// An existing value (id >= 0), a value this edit makes (index >= 0), or none (both -1).
struct ValueRef {
  ValueId id = kNoValue;
  int32_t made = -1;
  static ValueRef Of(ValueId id) { return {id, -1}; }
  static ValueRef None() { return {}; }
};

class GraphEdit {
 public:
  struct NewValue {
    std::string name_hint;
    DType dtype = DType::kUndefined;
    std::optional<Shape> shape;
    std::optional<Tensor> constant;  // set: an initializer of `region`
    RegionId region = -1;            // -1: the anchor's
  };
  struct NewNode {
    std::string name_hint = {};
    std::string op_type = {};
    std::string domain = {};
    std::vector<ValueRef> inputs = {};
    std::vector<ValueRef> outputs = {};  // made values
    Attributes attributes = {};
    // Of ReplaceNode: a node that the edit makes superfluous and whose name, if it has one, this takes over instead.
    NodeId name_of = kNoNode;
  };

  // Nodes go just before `anchor`, in its region.
  explicit GraphEdit(NodeId anchor) : anchor_(anchor) {}

  // An initializer, in the given region or the anchor's. Several readers want it where the weight it stands for was.
  ValueRef AddConstant(std::string name_hint, Tensor tensor, RegionId region = -1);
  // A node with one output of the given type; returns that output.
  ValueRef AddNode(NewNode node, DType dtype, std::optional<Shape> shape);
  // A node with several outputs of these types and shapes; one of an undefined type is left out.
  std::vector<ValueRef> AddNode(NewNode node, const std::vector<std::pair<DType, std::optional<Shape>>>& outputs);
  void SetInput(NodeId node, int32_t index, ValueRef value) { inputs_.push_back({{node, index}, value}); }
  // All readers of `old` read `value` instead. A value that this edit makes takes over its name; so does an existing
  // one when `old` is a region's output, which must be able to: made by a node of the region and no output itself.
  void Replace(ValueId old, ValueRef value) { replaced_.push_back({old, value}); }
  // `node` takes the place of `old`: its name, its outputs (node.outputs is not read) and its position.
  void ReplaceNode(NodeId old, NewNode node) { taken_over_.push_back({old, std::move(node)}); }
  // Removed after everything else; nothing may read its outputs by then.
  void Remove(NodeId node) { removed_.push_back(node); }

  // Applies all of it or, on error, none of it: ids are checked and types of replaced values compared (when both
  // are known) before the graph is touched. Weights are never deleted here; Graph::RemoveUnused sweeps.
  // `made`, when given, gets the ids of the new values by ValueRef::made.
  Status ApplyTo(Graph& graph, std::vector<ValueId>* made = nullptr) const;

 private:
  Status Check(const Graph& graph) const;
  NodeId anchor_;
  std::vector<NewValue> values_;
  std::vector<NewNode> nodes_;
  std::vector<std::pair<std::pair<NodeId, int32_t>, ValueRef>> inputs_;
  std::vector<std::pair<ValueId, ValueRef>> replaced_;
  std::vector<std::pair<NodeId, NewNode>> taken_over_;
  std::vector<NodeId> removed_;
};

}  // namespace quant
