// Where a run's time goes: by node and by operator.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "libquant/ir/graph.h"
#include "tools/json.h"

namespace quant {

class Profile {
 public:
  explicit Profile(const Graph& graph) : graph_(graph), rows_(static_cast<size_t>(graph.node_count())) {}

  // One run of the first node, with those that were done with it. Nodes that hold bodies count the bodies' time too.
  void Add(std::span<const NodeId> nodes, double seconds);

  // Two tables, slowest first: operators, and the slowest nodes. `total` is the time of all runs.
  std::string Text(double total) const;
  // {"operators": [...], "nodes": [...]}, every node that ran.
  Json ToJson(double total) const;

 private:
  struct Row {
    int64_t calls = 0;
    double seconds = 0;
    std::string with;  // operators of the nodes done with it, "Add, Relu"
  };
  struct Operator {
    std::string name;
    int64_t nodes = 0;
    Row row;
  };
  std::vector<NodeId> SlowestNodes() const;
  std::vector<Operator> SlowestOperators() const;
  std::string OperatorOf(NodeId node) const;

  const Graph& graph_;
  std::vector<Row> rows_;  // by node
};

}  // namespace quant
