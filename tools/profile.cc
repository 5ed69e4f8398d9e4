#include "tools/profile.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "libquant/report/table.h"
#include "tools/units.h"

namespace quant {
namespace {

constexpr size_t kNodesShown = 20;
constexpr size_t kLongestName = 60;

std::string Share(double seconds, double total) {
  return total > 0 ? fmt::format("{:.1f} %", 100 * seconds / total) : "";
}

std::string Milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

}  // namespace

void Profile::Add(std::span<const NodeId> nodes, double seconds) {
  Row& row = rows_[static_cast<size_t>(nodes[0])];
  ++row.calls;
  row.seconds += seconds;
  row.with.clear();
  for (NodeId n : nodes.subspan(1)) {
    within_.emplace(n, nodes[0]);
    if (!row.with.empty()) row.with += ", ";
    row.with += graph_.node(n).op_type;
  }
}

std::string Profile::OperatorOf(NodeId node) const {
  const std::string& with = rows_[static_cast<size_t>(node)].with;
  return with.empty() ? graph_.node(node).op_type : fmt::format("{} + {}", graph_.node(node).op_type, with);
}

std::vector<NodeId> Profile::SlowestNodes() const {
  std::vector<NodeId> order;
  for (NodeId n = 0; n < graph_.node_count(); ++n) {
    if (rows_[static_cast<size_t>(n)].calls > 0) order.push_back(n);
  }
  std::stable_sort(order.begin(), order.end(), [&](NodeId a, NodeId b) {
    return rows_[static_cast<size_t>(a)].seconds > rows_[static_cast<size_t>(b)].seconds;
  });
  return order;
}

std::vector<Profile::Operator> Profile::SlowestOperators() const {
  std::map<std::string, Operator> by_name;
  for (NodeId n : SlowestNodes()) {
    const Row& row = rows_[static_cast<size_t>(n)];
    Operator& op = by_name[graph_.node(n).op_type];
    op.name = graph_.node(n).op_type;
    ++op.nodes;
    op.row.calls += row.calls;
    op.row.seconds += row.seconds;
  }
  std::vector<Operator> out;
  out.reserve(by_name.size());
  for (auto& [name, op] : by_name) out.push_back(std::move(op));
  std::stable_sort(out.begin(), out.end(),
                   [](const Operator& a, const Operator& b) { return a.row.seconds > b.row.seconds; });
  return out;
}

double Profile::InNodes() const {
  return std::accumulate(rows_.begin(), rows_.end(), 0.0, [](double sum, const Row& row) { return sum + row.seconds; });
}

std::map<std::pair<std::string, std::string>, int64_t> Profile::DoneWithin() const {
  std::map<std::pair<std::string, std::string>, int64_t> out;
  for (const auto& [node, first] : within_) ++out[{graph_.node(node).op_type, graph_.node(first).op_type}];
  return out;
}

std::string Profile::Text(double total) const {
  Table operators({"operator", "nodes", "calls", "ms", "of the time"});
  for (const Operator& op : SlowestOperators()) {
    operators.AddRow({op.name, Grouped(op.nodes), Grouped(op.row.calls), Milliseconds(op.row.seconds),
                      Share(op.row.seconds, total)});
  }
  const double other = std::max(0.0, total - InNodes());
  operators.AddRow({"(in no node)", "", "", Milliseconds(other), Share(other, total)});
  operators.AddRow({"(total)", "", "", Milliseconds(total), Share(total, total)});
  std::string parts;
  for (const auto& [names, count] : DoneWithin()) {
    parts += fmt::format("{}{} {} in {}", parts.empty() ? "" : ", ", Grouped(count), names.first, names.second);
  }
  if (!parts.empty()) parts = "done within the operator before, and in its time: " + parts + "\n";
  Table nodes({"node", "operator", "calls", "ms", "of the time"});
  const std::vector<NodeId> order = SlowestNodes();
  for (size_t i = 0; i < std::min(kNodesShown, order.size()); ++i) {
    const Row& row = rows_[static_cast<size_t>(order[i])];
    nodes.AddRow({Shortened(graph_.NodeLabel(order[i]), kLongestName), OperatorOf(order[i]), Grouped(row.calls),
                  Milliseconds(row.seconds), Share(row.seconds, total)});
  }
  std::string text = fmt::format("\n{}{}\n{}", operators.Render(), parts, nodes.Render());
  if (order.size() > kNodesShown)
    text += fmt::format("and {} nodes more (--json has all)\n", order.size() - kNodesShown);
  return text;
}

Json Profile::ToJson(double total) const {
  Json operators = Json::Array(), nodes = Json::Array();
  for (const Operator& op : SlowestOperators()) {
    operators.Append(Json::Object()
                         .Set("operator", op.name)
                         .Set("nodes", op.nodes)
                         .Set("calls", op.row.calls)
                         .Set("seconds", op.row.seconds));
  }
  for (NodeId n : SlowestNodes()) {
    const Row& row = rows_[static_cast<size_t>(n)];
    nodes.Append(Json::Object()
                     .Set("node", graph_.NodeLabel(n))
                     .Set("operator", OperatorOf(n))
                     .Set("calls", row.calls)
                     .Set("seconds", row.seconds));
  }
  Json within = Json::Array();
  for (const auto& [names, count] : DoneWithin()) {
    within.Append(Json::Object().Set("operator", names.first).Set("in", names.second).Set("nodes", count));
  }
  return Json::Object()
      .Set("seconds", total)
      .Set("in_no_node_seconds", std::max(0.0, total - InNodes()))
      .Set("operators", operators)
      .Set("nodes", nodes)
      .Set("done_within", within);
}

}  // namespace quant
