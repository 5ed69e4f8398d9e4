// Where a run's time goes: by node and by operator.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libquant/ir/graph.h"
#include "libquant/report/json.h"

namespace quant {

class Profile {
 public:
  explicit Profile(const Graph& graph) : graph_(graph), rows_(static_cast<size_t>(graph.node_count())) {}

  // One run of the first node, with those that were done with it: their own time, without the nodes of bodies.
  void Add(std::span<const NodeId> nodes, double seconds);

  // Two tables, slowest first: operators, which add up to `total`, the time of all runs; and the slowest nodes. Under
  // them the operators that were done as a part of another.
  std::string Text(double total) const;
  // {"seconds": ..., "in_no_node_seconds": ..., "operators": [...], "nodes": [...], "done_within": [...]}, every node
  // that ran.
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
  double InNodes() const;
  // Numbers of nodes done as a part of another, by their operator and that of the other.
  std::map<std::pair<std::string, std::string>, int64_t> DoneWithin() const;

  const Graph& graph_;
  std::vector<Row> rows_;                       // by node
  std::set<std::pair<NodeId, NodeId>> within_;  // a node, and the one it was done with
};

}  // namespace quant
