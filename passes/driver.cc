#include "passes/driver.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <tuple>

#include "libquant/model/check.h"
#include "libquant/model/opset.h"
#include "libquant/model/type_clashes.h"
#include "passes/match.h"
#include "passes/shape/infer_anew.h"

namespace quant {
namespace {

// A rule may fire this often for each node that was there; more is a rule that undoes itself.
constexpr int kFiringsPerNode = 8;

constexpr std::string_view kMicrosoft = "com.microsoft";

bool UsesMicrosoft(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.AllNodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return graph.node(n).domain == kMicrosoft; });
}

// Passes may make operators of com.microsoft in a model that had none.
void ImportMicrosoft(Model& model) {
  bool used = UsesMicrosoft(model.graph);
  for (Function& f : model.functions) {
    if (!UsesMicrosoft(f.body)) continue;
    used = true;
    const bool known =
        std::any_of(f.opsets.begin(), f.opsets.end(), [](const auto& o) { return o.first == kMicrosoft; });
    if (!known) f.opsets.emplace_back(kMicrosoft, 1);
  }
  if (used && model.OpsetOf(kMicrosoft) == 0) model.SetOpset(kMicrosoft, 1);
}

// Below IR 4 an initializer has to be listed among the inputs of its graph. Those that passes make are not.
void RaiseForInitializers(Model& model) {
  const Graph& graph = model.graph;
  for (ValueId v = 0; v < graph.value_count() && model.ir_version < 4; ++v) {
    const Value& value = graph.value(v);
    if (!value.removed && value.is_initializer && !value.is_input) RaiseIrVersion(model, 4);
  }
}

class Driver {
 public:
  Driver(Model& model, const DriverOptions& options) : model_(model), options_(options) {}

  StatusOr<DriverReport> Run(const std::vector<const Pass*>& passes) {
    report_.nodes_before = CountNodes(model_);
    loads_ = CheckShapes(model_).ok();
    for (const TypeClash& clash : TypeClashes(model_)) clashing_.insert(clash.node);
    for (const Pass* pass : passes) report_.passes.emplace_back().pass = pass;
    bool changed = true;
    while (changed && report_.rounds < options_.max_rounds && !exhausted()) {
      changed = false;
      ++report_.rounds;
      for (PassReport& pass : report_.passes) {
        ASSIGN_OR_RETURN(const bool did, RunOnce(pass));
        changed = changed || did;
      }
    }
    report_.settled = !changed || exhausted();
    report_.nodes_after = CountNodes(model_);
    return std::move(report_);
  }

 private:
  bool exhausted() const { return options_.stop_after && report_.changes >= *options_.stop_after; }
  int left() const { return options_.stop_after ? *options_.stop_after - report_.changes : INT32_MAX; }

  StatusOr<bool> RunOnce(PassReport& out) {
    if (!out.undone.empty() || exhausted()) return false;
    const auto begin = std::chrono::steady_clock::now();
    const int nodes = CountNodes(model_);
    if (report_.rounds == 1) out.nodes_before = nodes;
    before_.reset();
    ASSIGN_OR_RETURN(const int changes, Change(*out.pass));
    if (changes > 0) {
      RETURN_IF_ERROR(Settle(*out.pass));
      ASSIGN_OR_RETURN(const auto wrong, Wrong());
      if (wrong) {
        out.undone = *wrong;
        model_ = *std::move(before_);
      }
    }
    out.nodes_after = CountNodes(model_);
    out.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (changes == 0 || !out.undone.empty()) return false;
    out.changes += changes;
    report_.changes += changes;
    if (options_.after) RETURN_IF_ERROR(options_.after(*out.pass, report_.rounds, model_));
    return true;
  }

  // Why the model as it is now must not stay.
  StatusOr<std::optional<std::string>> Wrong() const {
    for (const TypeClash& clash : TypeClashes(model_)) {
      if (!clashing_.contains(clash.node)) return std::optional("element types would clash: " + clash.what);
    }
    if (loads_) {
      const Status shapes = CheckShapes(model_);
      if (!shapes.ok()) return std::optional("runtimes would not load the model: " + Message(shapes));
    }
    if (options_.verify) return options_.verify(model_);
    return std::optional<std::string>();
  }

  // In the graph and in every function.
  StatusOr<int> Change(const Pass& pass) {
    if (pass.rule == nullptr) before_ = model_;  // payloads are shared
    if (pass.run_model != nullptr) {
      return pass.run_model(PassContext(model_, model_.graph, model_.opsets, options_.pass), model_);
    }
    ASSIGN_OR_RETURN(int changes, ChangeGraph(pass, model_.graph, model_.opsets, left()));
    for (Function& f : model_.functions) {
      std::vector<OpsetImport> opsets;
      for (const auto& [domain, version] : f.opsets) opsets.push_back({domain, version});
      ASSIGN_OR_RETURN(const int more, ChangeGraph(pass, f.body, opsets, left() - changes));
      changes += more;
    }
    return changes;
  }

  StatusOr<int> ChangeGraph(const Pass& pass, Graph& graph, const std::vector<OpsetImport>& opsets, int limit) {
    PassContext context(model_, graph, opsets, options_.pass);
    if (pass.run != nullptr) return limit > 0 ? pass.run(context, graph) : 0;
    const auto bound = static_cast<int64_t>(graph.AllNodes().size()) * kFiringsPerNode + 64;
    int changes = 0;
    for (bool again = true; again && changes < limit;) {
      again = false;
      for (NodeId node : graph.AllNodes()) {
        if (graph.node(node).removed || !IsRoot(pass, graph.node(node))) continue;
        if (options_.explain)
          context.on_miss = [&](std::string reason) { Missed(pass, graph, node, std::move(reason)); };
        const std::optional<GraphEdit> edit = pass.rule(context, node);
        if (!edit) continue;
        if (!before_) before_ = model_;
        RETURN_IF_ERROR(WithContext(edit->ApplyTo(graph), std::string(pass.name)));
        graph.RemoveOrphans();
        again = true;
        if (++changes >= limit) break;
        if (changes > bound) return BugError("pass {} does not come to an end", pass.name);
      }
    }
    return changes;
  }

  static bool IsRoot(const Pass& pass, const Node& node) {
    return pass.roots.empty() || std::find(pass.roots.begin(), pass.roots.end(), node.op_type) != pass.roots.end();
  }

  void Missed(const Pass& pass, const Graph& graph, NodeId node, std::string reason) {
    NearMiss miss = {std::string(pass.name), graph.NodeLabel(node), std::move(reason)};
    if (seen_.insert({miss.pass, miss.node, miss.reason}).second) report_.misses.push_back(std::move(miss));
  }

  // A pass may have made the first node of com.microsoft.
  Status Settle(const Pass& pass) {
    model_.graph.RemoveUnused();
    RETURN_IF_ERROR(WithContext(Verify(model_.graph), std::string(pass.name)));
    for (Function& f : model_.functions) {
      f.body.RemoveUnused();
      RETURN_IF_ERROR(WithContext(Verify(f.body), std::string(pass.name)));
    }
    ImportMicrosoft(model_);
    RaiseForInitializers(model_);
    return WithContext(InferAnew(model_), std::string(pass.name));
  }

  Model& model_;
  const DriverOptions& options_;
  DriverReport report_;
  std::optional<Model> before_;     // the pass that runs, once it changes something
  std::set<std::string> clashing_;  // nodes whose types clashed before any pass
  bool loads_ = true;               // shapes agreed with what runtimes check before any pass
  std::set<std::tuple<std::string, std::string, std::string>> seen_;
};

}  // namespace

int CountNodes(const Model& model) {
  const auto count = [](const Graph& graph) {
    const std::vector<NodeId> nodes = graph.AllNodes();
    return std::count_if(nodes.begin(), nodes.end(), [&](NodeId n) { return !IsOp(graph.node(n), "Constant"); });
  };
  auto total = count(model.graph);
  for (const Function& f : model.functions) total += count(f.body);
  return static_cast<int>(total);
}

StatusOr<DriverReport> RunPasses(Model& model, const std::vector<const Pass*>& passes, const DriverOptions& options) {
  return Driver(model, options).Run(passes);
}

}  // namespace quant
