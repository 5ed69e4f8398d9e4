#include "passes/convert/body_ports.h"

#include <algorithm>

namespace quant {
namespace {

std::optional<std::vector<BodyPort>> IfPorts(const Graph& graph, const Node& node) {
  const std::vector<RegionId> bodies = BodiesOf(node);
  std::vector<BodyPort> ports(node.outputs.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    ports[i].output = i;
    for (RegionId r : bodies) {
      if (graph.region(r).outputs.size() != ports.size()) return std::nullopt;
      ports[i].body_outputs.emplace_back(r, i);
    }
  }
  return ports;
}

// `head`: inputs and outputs in front of the variables, which come first on all sides. What follows among the inputs is
// cut into slices, among the outputs put together of them.
std::optional<std::vector<BodyPort>> RunPorts(const Graph& graph, const Node& node, size_t variables, size_t head_in,
                                              size_t body_head_in, size_t body_head_out) {
  const std::vector<RegionId> bodies = BodiesOf(node);
  if (bodies.size() != 1) return std::nullopt;
  const RegionId r = bodies[0];
  const Region& body = graph.region(r);
  const size_t inputs = node.inputs.size() - std::min(node.inputs.size(), head_in);
  if (body.inputs.size() != body_head_in + inputs || body.outputs.size() != body_head_out + node.outputs.size() ||
      variables > inputs || variables > node.outputs.size()) {
    return std::nullopt;
  }
  std::vector<BodyPort> ports;
  for (size_t i = 0; i < inputs; ++i) {
    BodyPort& port = ports.emplace_back();
    port.input = head_in + i;
    port.body_inputs.emplace_back(r, body_head_in + i);
    port.carried = i < variables;
    if (!port.carried) continue;
    port.output = i;
    port.body_outputs.emplace_back(r, body_head_out + i);
  }
  for (size_t i = variables; i < node.outputs.size(); ++i) {
    BodyPort& port = ports.emplace_back();
    port.output = i;
    port.body_outputs.emplace_back(r, body_head_out + i);
  }
  return ports;
}

}  // namespace

std::optional<std::vector<BodyPort>> BodyPortsOf(const Graph& graph, NodeId id, int64_t opset) {
  const Node& node = graph.node(id);
  if (!node.domain.empty()) return std::nullopt;
  if (node.op_type == "If") return IfPorts(graph, node);
  if (node.op_type == "Loop") {
    return node.inputs.size() < 2 ? std::nullopt : RunPorts(graph, node, node.inputs.size() - 2, 2, 2, 1);
  }
  const int64_t slices = node.attributes.Int("num_scan_inputs", 0);
  if (node.op_type != "Scan" || opset < 9 || slices < 0 || static_cast<size_t>(slices) > node.inputs.size()) {
    return std::nullopt;
  }
  return RunPorts(graph, node, node.inputs.size() - static_cast<size_t>(slices), 0, 0, 0);
}

std::vector<ValueId> ValuesOf(const Graph& graph, NodeId id, const BodyPort& port) {
  const Node& node = graph.node(id);
  std::vector<ValueId> out;
  const auto add = [&](ValueId v) {
    if (v != kNoValue) out.push_back(v);
  };
  if (port.input) add(node.inputs[*port.input]);
  if (port.output) add(node.outputs[*port.output]);
  for (const auto& [r, i] : port.body_inputs) add(graph.region(r).inputs[i]);
  for (const auto& [r, i] : port.body_outputs) add(graph.region(r).outputs[i]);
  return out;
}

}  // namespace quant
