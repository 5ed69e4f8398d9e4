// The rules of Lint, by what they look at. Each adds what it finds; shapes have been inferred.
#pragma once

#include <string>
#include <vector>

#include "libquant/ir/graph.h"
#include "libquant/lint/lint.h"

namespace quant {

// Model functions and graph alike: every live node with the graph it is in.
struct PlacedNode {
  const Graph* graph;
  NodeId id;
  const Node& node() const { return graph->node(id); }
};
std::vector<PlacedNode> NodesEverywhere(const Model& model);

// "1 node", "3 nodes".
std::string Count(size_t n, std::string_view what);

// Soundness: ONNX's checker, inference, our verifier. Infers shapes.
void LintSoundness(Model& model, std::vector<Finding>& out);
// Opset imports, inputs and their dimensions, initializers, types.
void LintInterface(const Model& model, const LintOptions& options, std::vector<Finding>& out);
// Operators: what the target and the executor lack, training leftovers, random numbers.
void LintOperators(const Model& model, const LintOptions& options, std::vector<Finding>& out);
// The node reads dequantized codes that are no constant.
bool ReadsCodes(const Graph& graph, const Node& node);
// Quantizers: their form, and what lies between them without being run in integers.
void LintIntegers(const Model& model, const LintOptions& options, std::vector<Finding>& out);
// Names and bodies.
void LintNodes(const Model& model, std::vector<Finding>& out);
// Contents of constants.
Status LintWeights(const Model& model, const LintOptions& options, std::vector<Finding>& out);
// Sizes of files, and what of external data is used.
void LintFiles(const Model& model, std::vector<Finding>& out);

}  // namespace quant
