// The graph: nodes and values with stable ids. One Graph is an arena for a model's main graph (or one function's
// body) and every body nested in it (If, Loop, Scan): names are resolved to ids when a model is read, so a body
// that captures an outer value simply uses that value's id, and `Value::uses` is the whole answer to "who reads
// this?". Ids are indices and stay valid; removed nodes and values leave a hole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/attribute.h"
#include "libquant/ir/shape.h"
#include "libquant/ir/tensor.h"

namespace quant {

using NodeId = int32_t;
using ValueId = int32_t;
inline constexpr NodeId kNoNode = -1;
inline constexpr ValueId kNoValue = -1;  // an optional input or output that is left out
inline constexpr RegionId kMainRegion = 0;

// One reader of a value: an input of a node, or (node == kNoNode) an output of a region.
struct Use {
  NodeId node = kNoNode;
  int32_t index = 0;
  RegionId region = kMainRegion;  // where the reader is
  bool operator==(const Use&) const = default;
};

struct Value {
  std::string name;
  DType dtype = DType::kUndefined;  // undefined: unknown, or not a tensor
  std::optional<Shape> shape;       // nullopt: unknown rank
  RegionId region = kMainRegion;    // where it is defined
  NodeId producer = kNoNode;        // kNoNode: region input, initializer, or function input
  int32_t output_index = 0;         // of the producer
  bool is_input = false;            // of its region (an initializer may be one too)
  bool is_initializer = false;
  // The value itself when it is known: an initializer's tensor or a Constant node's. To every pass a weight is a
  // value with a constant, wherever the file kept it.
  std::optional<Tensor> constant;
  std::vector<Use> uses;
  // Serialized leftovers of the file's ValueInfoProto and TensorProto; written back unchanged.
  std::string info_extra;
  std::string tensor_extra;
  bool has_info = false;  // the file (or inference) lists it in value_info
  bool removed = false;
};

struct Node {
  std::string name;  // may be empty and need not be unique in a file
  std::string op_type;
  std::string domain;  // "" is ai.onnx
  std::string overload;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  RegionId region = kMainRegion;
  std::string extra;  // serialized leftovers
  bool removed = false;
};

// The main graph, a function's body, or a body held by a node's attribute.
struct Region {
  std::string name;
  RegionId parent = -1;          // of a nested body
  NodeId owner = kNoNode;        // the node whose attribute this is
  std::vector<ValueId> inputs;   // in order; may include initializers
  std::vector<ValueId> outputs;  // in order; may name captured values
  std::vector<ValueId> initializers;
  std::vector<NodeId> nodes;  // topological order
  std::string extra;
  bool removed = false;
};

class Graph {
 public:
  Graph();

  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Region& region(RegionId id) const { return regions_[static_cast<size_t>(id)]; }
  Region& region(RegionId id) { return regions_[static_cast<size_t>(id)]; }
  const Region& main() const { return regions_[0]; }
  Region& main() { return regions_[0]; }
  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t value_count() const { return static_cast<int32_t>(values_.size()); }
  int32_t region_count() const { return static_cast<int32_t>(regions_.size()); }

  // Every live node: main graph in order, each node followed by the nodes of its bodies.
  std::vector<NodeId> AllNodes() const;
  // "Conv_3", or "Conv#17 -> y" for a node without a name.
  std::string NodeLabel(NodeId id) const;

  // True for the body of a model's function: it has no initializers and keeps its constants in Constant nodes.
  bool is_function = false;

  // Building blocks, used by the reader and by Apply. They keep producers and uses right.
  RegionId AddRegion(RegionId parent, NodeId owner);
  ValueId AddValue(Value value);
  // Appends to its region's order.
  NodeId AddNode(Node node);
  // A constant of the region under an unused name: an initializer, or a Constant node at the front of a function.
  ValueId AddConstant(std::string_view name_hint, Tensor tensor, RegionId region);
  void AddOutput(RegionId region, ValueId value);
  void SetInput(NodeId node, int32_t index, ValueId value);
  void SetOutput(RegionId region, int32_t index, ValueId value);
  // Rewires all uses of `from`, region outputs included. A graph output keeps its name: see GraphEdit::Replace.
  void ReplaceUses(ValueId from, ValueId to);
  // Removes a node with its outputs and bodies. Its outputs must have no uses left.
  void RemoveNode(NodeId id);
  // Inserts `id` (made by AddNode in the same region) just before `before` in the order.
  void MoveBefore(NodeId id, NodeId before);

  // An unused name made from the hint: "hint", "hint_1", ... One allocator for values and nodes of the whole arena.
  std::string FreshName(std::string_view hint);

  // Removes nodes without a used output and constants without a use, bodies included, until none is left.
  // Graph inputs stay. Returns what it removed. Walks the whole graph.
  int RemoveUnused();
  // Removes the nodes that RemoveUnused would, looking only where a value lost its last reader or was added since the
  // last call of either: after one edit its time does not grow with the graph. Constants stay for RemoveUnused.
  int RemoveOrphans();

  // Puts each region's nodes in topological order, keeping the given order where it is one already.
  // DataError naming a node when there is a cycle.
  Status SortTopologically();

 private:
  void AddUse(ValueId value, Use use);
  void DropUse(ValueId value, Use use);
  bool IsUnused(const Node& node) const;
  // Where a node stands in its region's order. Looks around where it stood when that was last known.
  size_t PlaceOf(NodeId id);
  void NotePlaces(const Region& region);
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Region> regions_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> numbers_;  // last one that FreshName gave to a hint
  std::vector<ValueId> unread_;                   // may have no reader: what RemoveOrphans looks at
  std::vector<size_t> places_;                    // by node: its place when last known
  ptrdiff_t drift_ = 0;                           // how far the node that was last looked for had moved from its own
};

// The bodies a node's attributes hold, in order.
std::vector<RegionId> BodiesOf(const Node& node);

// Broken invariants of a graph, as BugError; run after reading and after each change. Checks ids, that uses and
// producers agree, topological order and scope of every input, unique live names per scope, region nesting.
Status Verify(const Graph& graph);

struct Function {
  std::string domain;
  std::string name;
  std::string overload;
  std::vector<std::string> attributes;  // names without defaults
  Graph body;
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::string extra;
};

struct OpsetImport {
  std::string domain;
  int64_t version = 0;
};

struct Model {
  int64_t ir_version = 0;
  std::vector<OpsetImport> opsets;
  Graph graph;
  std::vector<Function> functions;
  std::string extra;  // producer, metadata, doc string, unknown fields: serialized, written back unchanged
  // Files the model was read from, itself first: an output must be none of these.
  std::vector<std::shared_ptr<const File>> sources;

  // Version of a domain's opset, 0 when it is not imported. "" and "ai.onnx" are the same domain.
  int64_t OpsetOf(std::string_view domain) const;
  void SetOpset(std::string_view domain, int64_t version);
};

}  // namespace quant
