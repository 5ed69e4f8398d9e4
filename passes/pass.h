// What a pass is. A pass is one file that defines `const Pass& FooPass()` and one line in passes.def. There are three
// kinds under one contract: a local rule looks at one root node of a const graph and returns the edit it would make; a
// whole-graph pass changes the graph itself; a model pass the model, its functions and versions included. Either way
// the driver (driver.h) counts, verifies and undoes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/target.h"
#include "libquant/ir/edit.h"
#include "libquant/ir/graph.h"

namespace quant {

struct PassOptions {
  Target target;
  // Constants that a pass makes are at most this large, unless they take the place of what they are made of.
  int64_t max_constant_bytes = int64_t{1} << 20;
};

// A rule that matched an operator but not all of its conditions.
struct NearMiss {
  std::string pass;
  std::string node;
  std::string reason;
};

// What a pass sees of a model besides the graph it works on, which is the model's or that of a function's body.
class PassContext {
 public:
  PassContext(const Model& model, const Graph& graph, const std::vector<OpsetImport>& opsets,
              const PassOptions& options)
      : model_(model), graph_(graph), opsets_(opsets), options_(options) {}

  const Model& model() const { return model_; }
  const Graph& graph() const { return graph_; }
  const PassOptions& options() const { return options_; }
  const Target& target() const { return options_.target; }
  // Version of a domain that the graph imports; 0 when it does not.
  int64_t opset(std::string_view domain = "") const;
  // True when a node of this operator may be made: the target runs it and the graph's opset has it. Operators of
  // com.microsoft only where the target names them.
  bool MayMake(std::string_view domain, std::string_view op_type) const;

  // Why the rule did not fire although its root matched, for --explain. `return context.Miss("...")`.
  template <typename... Args>
  std::nullopt_t Miss(fmt::format_string<Args...> format, Args&&... args) const {
    if (on_miss) on_miss(fmt::format(format, std::forward<Args>(args)...));
    return std::nullopt;
  }
  std::function<void(std::string reason)> on_miss;

 private:
  const Model& model_;
  const Graph& graph_;
  const std::vector<OpsetImport>& opsets_;
  const PassOptions& options_;
};

struct Pass {
  std::string_view name;     // "fold-batch-norm", as users write it
  std::string_view summary;  // one sentence
  // One of the three.
  // `roots`: operators that the rule looks at, any domain of the default's or com.microsoft; empty: all. The edit may
  // leave nodes without a reader: the driver removes them.
  std::vector<std::string_view> roots = {};
  std::optional<GraphEdit> (*rule)(const PassContext& context, NodeId root) = nullptr;
  // Returns the number of changes; 0 must mean that nothing has changed. Types of new values are inferred afterwards.
  StatusOr<int> (*run)(const PassContext& context, Graph& graph) = nullptr;
  // The same for what is not in one graph; the context's graph is the main one.
  StatusOr<int> (*run_model)(const PassContext& context, Model& model) = nullptr;
};

// All passes, in the order of passes.def.
const std::vector<const Pass*>& AllPasses();
const Pass* FindPass(std::string_view name);

}  // namespace quant
