#include "passes/shape/dynamic_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "passes/match.h"

namespace quant {
namespace {

// How much comes out depends on the numbers that go in.
constexpr std::string_view kByData[] = {"NonZero", "Unique", "Compress", "NonMaxSuppression", "StringSplit"};
// A shape follows from the numbers of some inputs: from which on they count.
constexpr std::pair<std::string_view, size_t> kShapeInputs[] = {
    {"Reshape", 1},    {"Expand", 1},       {"ConstantOfShape", 0}, {"Range", 0},     {"Slice", 1},
    {"Tile", 1},       {"Resize", 1},       {"Upsample", 1},        {"Pad", 1},       {"OneHot", 1},
    {"TopK", 1},       {"Split", 1},        {"Squeeze", 1},         {"Unsqueeze", 1}, {"ReduceSum", 1},
    {"ReduceMean", 1}, {"ReduceMax", 1},    {"ReduceMin", 1},       {"Loop", 0},      {"MaxUnpool", 2},
    {"AffineGrid", 1}, {"CenterCropPad", 1}};
constexpr int kMostSteps = 1000;

constexpr int kNoAxis = -1;

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {}

  DynamicReport Run() {
    Walk(kMainRegion);
    DynamicReport out;
    for (ValueId v : graph_.main().outputs) {
      for (int axis : OpenAxes(v)) {
        const std::string symbol = axis == kNoAxis ? "" : (*graph_.value(v).shape)[static_cast<size_t>(axis)].symbol;
        out.outputs.push_back({v, axis, symbol, CauseOf(v, axis)});
      }
    }
    std::map<std::string, int> counts;
    for (const auto& [value, causes] : by_value_) {
      if (!causes.empty()) ++counts[causes.begin()->second];
    }
    out.causes.assign(counts.begin(), counts.end());
    std::stable_sort(out.causes.begin(), out.causes.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return out;
  }

 private:
  // Axes without a number; kNoAxis alone when the rank is unknown.
  std::vector<int> OpenAxes(ValueId v) const {
    const Value& value = graph_.value(v);
    if (value.constant) return {};
    if (!value.shape) return {kNoAxis};
    std::vector<int> out;
    for (size_t i = 0; i < value.shape->size(); ++i) {
      if (!(*value.shape)[i].known()) out.push_back(static_cast<int>(i));
    }
    return out;
  }

  // Bodies before the node that holds them: its results may be theirs.
  void Walk(RegionId region) {
    for (ValueId v : graph_.region(region).inputs) {
      for (int axis : OpenAxes(v)) by_value_[v][axis] = OfInput(region, v, axis);
    }
    for (NodeId n : graph_.region(region).nodes) {
      for (RegionId body : BodiesOf(graph_.node(n))) Walk(body);
      for (ValueId v : graph_.node(n).outputs) {
        if (v == kNoValue) continue;
        for (int axis : OpenAxes(v)) by_value_[v][axis] = OfOutput(n, v, axis);
      }
    }
  }

  std::string OfInput(RegionId region, ValueId v, int axis) const {
    const NodeId owner = graph_.region(region).owner;
    if (owner != kNoNode) return NodeText(owner);
    const std::string& name = graph_.value(v).name;
    if (axis == kNoAxis) return fmt::format("the rank of input {}", name);
    const std::string& symbol = (*graph_.value(v).shape)[static_cast<size_t>(axis)].symbol;
    return fmt::format("dimension {}{} of input {}", axis, symbol.empty() ? "" : " (" + symbol + ")", name);
  }

  std::string NodeText(NodeId n) const {
    const Node& node = graph_.node(n);
    if (!node.name.empty()) return fmt::format("{} node '{}'", node.op_type, node.name);
    return fmt::format(
        "{} node that makes {}", node.op_type,
        node.outputs.empty() || node.outputs[0] == kNoValue ? "nothing" : graph_.value(node.outputs[0]).name);
  }

  // What was found of a value; its first open axis when this one has none.
  std::string CauseOf(ValueId v, int axis) const {
    const auto it = by_value_.find(v);
    if (it == by_value_.end() || it->second.empty()) return "an input of its operator";
    const auto at = it->second.find(axis);
    return at == it->second.end() ? it->second.begin()->second : at->second;
  }

  bool IsOpen(ValueId v) const { return v != kNoValue && by_value_.count(v) > 0; }

  const std::string* SymbolAt(ValueId v, int axis) const {
    const auto& shape = graph_.value(v).shape;
    if (!shape || axis < 0 || static_cast<size_t>(axis) >= shape->size()) return nullptr;
    const Dim& d = (*shape)[static_cast<size_t>(axis)];
    return d.known() || d.symbol.empty() ? nullptr : &d.symbol;
  }

  // Inputs, and what its bodies give back.
  std::vector<ValueId> Sources(const Node& node, ValueId output) const {
    std::vector<ValueId> out = node.inputs;
    for (RegionId body : BodiesOf(node)) {
      const auto& given = graph_.region(body).outputs;
      // A Loop's body gives back its condition first.
      const size_t at = static_cast<size_t>(graph_.value(output).output_index) + (node.op_type == "Loop" ? 1 : 0);
      if (at < given.size()) out.push_back(given[at]);
    }
    return out;
  }

  std::string OfOutput(NodeId n, ValueId v, int axis) const {
    const Node& node = graph_.node(n);
    if (std::find(std::begin(kByData), std::end(kByData), node.op_type) != std::end(kByData)) return NodeText(n);
    const std::vector<ValueId> sources = Sources(node, v);
    if (const std::string* symbol = SymbolAt(v, axis)) {
      for (ValueId s : sources) {
        if (!IsOpen(s)) continue;
        for (const auto& [other, cause] : by_value_.at(s)) {
          const std::string* same = SymbolAt(s, other);
          if (same != nullptr && *same == *symbol) return cause;
        }
      }
    }
    for (ValueId s : sources) {
      if (IsOpen(s)) return CauseOf(s, axis);
    }
    const auto row = std::find_if(std::begin(kShapeInputs), std::end(kShapeInputs),
                                  [&](const auto& r) { return r.first == node.op_type; });
    if (row == std::end(kShapeInputs)) return NodeText(n);
    return OfNumbers(node, row->second, NodeText(n));
  }

  // Where the numbers come from that a shape is made of.
  std::string OfNumbers(const Node& node, size_t first, const std::string& otherwise) const {
    ValueId at = FirstVariable(node, first);
    if (at == kNoValue) return otherwise;
    for (int step = 0; step < kMostSteps; ++step) {
      const Value& value = graph_.value(at);
      if (value.producer == kNoNode) {
        const bool outer = graph_.region(value.region).owner == kNoNode;
        return outer ? fmt::format("the values of input {}", value.name) : NodeText(graph_.region(value.region).owner);
      }
      const Node& maker = graph_.node(value.producer);
      const ValueId before = FirstVariable(maker, 0);
      if (maker.op_type == "Shape" || maker.op_type == "Size") {
        return IsOpen(before) ? CauseOf(before, kNoAxis) : NodeText(value.producer);
      }
      if (before == kNoValue) return NodeText(value.producer);
      at = before;
    }
    return otherwise;
  }

  ValueId FirstVariable(const Node& node, size_t first) const {
    for (size_t i = first; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue && !graph_.value(node.inputs[i]).constant) return node.inputs[i];
    }
    return kNoValue;
  }

  const Graph& graph_;
  std::map<ValueId, std::map<int, std::string>> by_value_;  // of open axes
};

}  // namespace

DynamicReport FindDynamic(const Graph& graph) { return Finder(graph).Run(); }

}  // namespace quant
