#include <algorithm>
#include <map>
#include <set>

#include "libquant/exec/session.h"
#include "libquant/lint/foldable.h"
#include "libquant/lint/rules.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/signature.h"
#include "libquant/ops/random.h"

namespace quant {
namespace {

bool IsStandard(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

std::string OperatorName(const Node& node) {
  return IsStandard(node) ? node.op_type : fmt::format("{}:{}", node.domain, node.op_type);
}

// Operators as (domain, type) with their nodes, calls of the model's functions aside, and without the nodes that every
// runtime computes before it runs anything.
using NodesByOperator = std::map<std::pair<std::string, std::string>, std::vector<PlacedNode>>;
NodesByOperator RunOperators(const Model& model) {
  std::set<std::pair<std::string, std::string>> functions;
  for (const Function& f : model.functions) functions.insert({f.domain, f.name});
  std::map<const Graph*, std::vector<bool>> foldable;
  foldable[&model.graph] = FoldableNodes(model.graph, model.ir_version, model.OpsetOf(""));
  for (const Function& f : model.functions)
    foldable[&f.body] = FoldableNodes(f.body, model.ir_version, model.OpsetOf(""));
  NodesByOperator out;
  for (const PlacedNode& placed : NodesEverywhere(model)) {
    const Node& node = placed.node();
    const std::pair key(node.domain == "ai.onnx" ? "" : node.domain, node.op_type);
    if (functions.contains(key) || foldable[placed.graph][static_cast<size_t>(placed.id)]) continue;
    out[key].push_back(placed);
  }
  return out;
}

std::vector<std::string> LabelsOf(const std::vector<PlacedNode>& nodes) {
  std::vector<std::string> out;
  out.reserve(nodes.size());
  for (const PlacedNode& placed : nodes) out.push_back(placed.graph->NodeLabel(placed.id));
  return out;
}

// Element types are known of the main graph's values and not of a function's.
void LintElementTypes(const Model& model, const Target& target, const NodesByOperator& operators,
                      std::vector<Finding>& out) {
  if (target.types.empty()) return;
  for (const auto& [op, nodes] : operators) {
    const auto& [domain, type] = op;
    if (!target.Runs(domain, type)) continue;
    std::map<DType, std::vector<PlacedNode>> refused;
    for (const PlacedNode& placed : nodes) {
      if (placed.graph != &model.graph) continue;
      const DType dtype = MainType(model.graph, placed.node(), model.OpsetOf(domain));
      if (dtype != DType::kUndefined && !target.Takes(domain, type, dtype)) refused[dtype].push_back(placed);
    }
    for (const auto& [dtype, found] : refused) {
      Finding f = Finding::Of(FindingId::kTargetType,
                              fmt::format("{} of {}: {}, not run by {}", OperatorName(found[0].node()), NameOf(dtype),
                                          Count(found.size(), "node"), target.name),
                              LabelsOf(found));
      if (target.falls_back) f.severity = Severity::kWarning;
      out.push_back(std::move(f));
    }
  }
}

void LintTarget(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  const Target& target = options.target;
  const NodesByOperator operators = RunOperators(model);
  LintElementTypes(model, target, operators, out);
  for (const auto& [op, nodes] : operators) {
    const auto& [domain, type] = op;
    const std::vector<std::string> labels = LabelsOf(nodes);
    const std::string name = domain.empty() ? type : fmt::format("{}:{}", domain, type);
    if (!target.Runs(domain, type)) {
      Finding f =
          Finding::Of(FindingId::kTargetOperator,
                      fmt::format("{}: {}, not run by {}", name, Count(labels.size(), "node"), target.name), labels);
      if (target.falls_back) f.severity = Severity::kWarning;
      if (target.name == "portable") {
        f.what = fmt::format("{}: {}, an operator outside of ONNX that few runtimes know", name,
                             Count(labels.size(), "node"));
        f.next = "`--target NAME` says whether yours does";
      } else if (target.falls_back) {
        f.next = "see what runs it instead; each change between the two copies tensors";
      }
      out.push_back(std::move(f));
    } else if (const auto limit = target.limits.find(type); limit != target.limits.end()) {
      out.push_back(Finding::Of(FindingId::kTargetLimit,
                                fmt::format("{}: {}; {} runs it under conditions: {}", name,
                                            Count(labels.size(), "node"), target.name, limit->second),
                                labels));
    }
  }
}

void LintKernels(const Model& model, std::vector<Finding>& out) {
  Model expanded = model;
  if (!ExpandOperators(expanded).ok()) expanded = model;
  const std::vector<std::string> lacking = OpsWithoutKernel(expanded);
  if (lacking.empty()) return;
  out.push_back(Finding::Of(FindingId::kOpNoKernel,
                            Count(lacking.size(), "operator") + " without a kernel in Nibble's executor", lacking));
}

// True when the boolean constant input i may be true: known to be, or not known at all.
bool MayBeTrue(const Graph& graph, const Node& node, size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == kNoValue) return false;
  const Value& value = graph.value(node.inputs[i]);
  if (!value.constant) return true;
  const StatusOr<Tensor> tensor = value.constant->Materialize();
  return tensor.ok() && tensor->dtype() == DType::kBool && tensor->size() == 1 && tensor->bytes()[0] != std::byte{0};
}

// Why the node is one for training; empty when it is not.
std::string TrainingReason(const Graph& graph, const Node& node, int64_t opset) {
  if (node.domain.rfind("ai.onnx.preview.training", 0) == 0 || node.domain == "ai.onnx.training") return "an optimizer";
  if (!IsStandard(node)) return "";
  const std::string& type = node.op_type;
  if (type == "SoftmaxCrossEntropyLoss" || type == "NegativeLogLikelihoodLoss") return "a loss";
  const bool test_flag = opset < 7 && node.attributes.Int("is_test", 0) == 0;
  if (type == "Dropout") {
    if (test_flag) return "is_test is 0";
    if (opset >= 12 && MayBeTrue(graph, node, 2)) return "training_mode is true or not constant";
  }
  if (type == "BatchNormalization") {
    if (test_flag) return "is_test is 0";
    if (node.attributes.Int("training_mode", 0) != 0) return "training_mode is 1";
    // Before opset 14 the running statistics were outputs of training alone.
    if (opset < 14 && node.outputs.size() > 1 &&
        std::any_of(node.outputs.begin() + 1, node.outputs.end(),
                    [&](ValueId v) { return v != kNoValue && !graph.value(v).uses.empty(); })) {
      return "its running statistics are read";
    }
  }
  return "";
}

void LintTraining(const Model& model, std::vector<Finding>& out) {
  std::vector<std::string> training, random;
  for (const PlacedNode& placed : NodesEverywhere(model)) {
    const Node& node = placed.node();
    const std::string reason = TrainingReason(*placed.graph, node, model.OpsetOf(""));
    const std::string label = placed.graph->NodeLabel(placed.id);
    if (!reason.empty()) training.push_back(fmt::format("{} ({}: {})", label, node.op_type, reason));
    if (DrawsRandomNumbers(node.domain, node.op_type))
      random.push_back(fmt::format("{} ({})", label, OperatorName(node)));
  }
  if (!training.empty()) {
    out.push_back(Finding::Of(FindingId::kOpTraining, Count(training.size(), "node") + " of training", training));
  }
  if (!random.empty()) {
    out.push_back(Finding::Of(FindingId::kOpRandom, Count(random.size(), "node") + " drawing random numbers", random));
  }
}

}  // namespace

void LintOperators(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  LintTarget(model, options, out);
  LintKernels(model, out);
  LintTraining(model, out);
}

}  // namespace quant
