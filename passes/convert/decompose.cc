#include "passes/convert/decompose.h"

#include <algorithm>
#include <set>

#include "libquant/base/checked.h"
#include "libquant/model/check.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/inline_functions.h"
#include "passes/driver.h"
#include "passes/match.h"

namespace quant {
namespace {

constexpr int64_t kOldestOpset = 7;

bool IsDefault(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// The passes by the operator that is their root.
const Pass* PassFor(const std::string& op_type) {
  for (const Pass* pass : AllPasses()) {
    if (pass->name.substr(0, 10) != "decompose-") continue;
    if (std::find(pass->roots.begin(), pass->roots.end(), op_type) != pass->roots.end()) return pass;
  }
  return nullptr;
}

class Decomposer {
 public:
  Decomposer(Model& model, const DecomposeOptions& options)
      : model_(model), options_(options), named_(options.operators.begin(), options.operators.end()) {}

  StatusOr<DecomposeReport> Run() {
    DecomposeReport report;
    for (const auto& [key, count] : Wanted()) report.nodes[key.second] += count;
    for (const std::string& op : named_) {
      if (!report.nodes.contains(op)) return UsageError("--decompose {}: the model has no such operator", op);
    }
    if (report.nodes.empty()) return report;
    if (model_.OpsetOf("") < kOldestOpset) {
      return Unsupported("the model is of opset {}; what operators are decomposed into starts at opset {}",
                         model_.OpsetOf(""), kOldestOpset);
    }
    if (!model_.functions.empty()) {  // their bodies have no types of their own, which most rules want
      RETURN_IF_ERROR(InlineFunctions(model_));
      RETURN_IF_ERROR(InferShapes(model_));
    }
    std::vector<const Pass*> passes;
    for (const auto& [op_type, count] : report.nodes) {
      const Pass* pass = PassFor(op_type);
      if (pass != nullptr && std::find(passes.begin(), passes.end(), pass) == passes.end()) passes.push_back(pass);
    }
    RETURN_IF_ERROR(RunAll(passes));
    if (!Wanted().empty()) {
      RETURN_IF_ERROR(CheckBodies());
      const auto wants = [this](const std::string& domain, const std::string& op_type, int64_t) {
        return Wants(domain, op_type);
      };
      RETURN_IF_ERROR(ExpandOperatorsWhere(model_, wants));
      passes.push_back(
          FindPass("decompose-cast-like"));  // bodies are full of it, and it is younger than what they stand for
      RETURN_IF_ERROR(RunAll(passes));
    }
    model_.graph.RemoveUnused();
    RETURN_IF_ERROR(CheckNoneLeft());
    return report;
  }

 private:
  bool Wants(const std::string& domain, const std::string& op_type) const {
    if (named_.contains(op_type)) return true;
    if (!options_.target) return false;
    return (IsDefault(domain) || domain == "com.microsoft") && !options_.target->Runs(domain, op_type);
  }

  // (domain, operator) -> number of nodes.
  std::map<std::pair<std::string, std::string>, int> Wanted() const {
    std::map<std::pair<std::string, std::string>, int> out;
    const auto look = [&](const Graph& graph) {
      for (NodeId n : graph.AllNodes()) {
        const Node& node = graph.node(n);
        if (Wants(node.domain, node.op_type)) ++out[{node.domain, node.op_type}];
      }
    };
    look(model_.graph);
    for (const Function& function : model_.functions) look(function.body);
    return out;
  }

  Status RunAll(const std::vector<const Pass*>& passes) {
    if (passes.empty()) return OkStatus();
    DriverOptions options;
    options.explain = true;
    if (options_.target) options.pass.target = *options_.target;
    ASSIGN_OR_RETURN(const DriverReport done, RunPasses(model_, passes, options));
    misses_ = done.misses;
    return OkStatus();
  }

  // ONNX's body of LayerNormalization lays scale and bias beside the normalized elements in a row: it runs only when
  // they are as many.
  Status CheckNormalized(NodeId n) const {
    const Graph& graph = model_.graph;
    const Node& node = graph.node(n);
    const auto dims = DimsOf(graph, InputOf(node, 0));
    if (!dims) return OkStatus();
    const auto rank = static_cast<int64_t>(dims->size());
    const int64_t axis = node.attributes.Int("axis", -1);
    if (axis < -rank || axis >= rank) return OkStatus();
    const auto normalized =
        CheckedProduct(std::span(*dims).subspan(static_cast<size_t>(axis < 0 ? axis + rank : axis)));
    for (const size_t input : {size_t{1}, size_t{2}}) {
      const auto beside = DimsOf(graph, InputOf(node, input));
      if (InputOf(node, input) == kNoValue || !beside) continue;
      const auto count = CheckedProduct(*beside);
      if (count && *count == normalized) continue;
      return Unsupported("node {}: the body that ONNX defines LayerNormalization by fails for a scale or bias of {}",
                         graph.NodeLabel(n), ToString(*beside));
    }
    return OkStatus();
  }

  // ONNX's body of AffineGrid squeezes all dims of 1, so that of images it does not run for a batch of 1.
  Status CheckBodies() const {
    const Graph& graph = model_.graph;
    for (NodeId n : graph.AllNodes()) {
      const Node& node = graph.node(n);
      if (IsOp(node, "LayerNormalization") && Wants(node.domain, node.op_type)) RETURN_IF_ERROR(CheckNormalized(n));
      if (node.op_type != "AffineGrid" || !Wants(node.domain, node.op_type) || InputOf(node, 0) == kNoValue) continue;
      const auto& theta = graph.value(InputOf(node, 0)).shape;
      if (!theta || theta->size() != 3 || (*theta)[0].value != 1 || (*theta)[1].value == 3) continue;
      return Unsupported("node {}: the body that ONNX defines AffineGrid by fails for a batch of 1",
                         graph.NodeLabel(n));
    }
    return OkStatus();
  }

  Status CheckNoneLeft() const {
    const auto left = Wanted();
    if (left.empty()) return OkStatus();
    const auto& [domain, op_type] = left.begin()->first;
    const int64_t version = model_.OpsetOf(domain);
    std::string why = "there is no rule for it, and ONNX does not define it by others";
    const auto body = OpsetOfBody(domain, op_type, version);
    if (body) {
      why = *body > model_.OpsetOf("") ? fmt::format("its body needs opset {}; --opset {} first", *body, *body)
                                       : std::string("its body depends on types or attributes that are not known");
    }
    for (const NearMiss& miss : misses_) {
      if (miss.pass == PassNameOf(op_type)) why = fmt::format("node {}: {}", miss.node, miss.reason);
    }
    const int count = left.begin()->second;
    return Unsupported("operator {}{}{} ({} node{}) cannot be decomposed: {}", domain, domain.empty() ? "" : ".",
                       op_type, count, count == 1 ? "" : "s", why);
  }

  static std::string PassNameOf(const std::string& op_type) {
    const Pass* pass = PassFor(op_type);
    return pass == nullptr ? "" : std::string(pass->name);
  }

  Model& model_;
  const DecomposeOptions& options_;
  std::set<std::string> named_;
  std::vector<NearMiss> misses_;
};

}  // namespace

StatusOr<DecomposeReport> DecomposeOperators(Model& model, const DecomposeOptions& options) {
  return Decomposer(model, options).Run();
}

}  // namespace quant
