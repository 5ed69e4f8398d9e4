// Runs passes: each to its own fixed point, the list of them again and again until nothing changes, both bounded. After
// every pass that changed something the graph is verified and what is new gets its type. The change is undone when
// element types clash that did not before, when runtimes would no longer load the model, or when a caller who can compare
// answers says so.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "passes/pass.h"

namespace quant {

// What one pass did, over all rounds.
struct PassReport {
  const Pass* pass = nullptr;
  int changes = 0;
  int nodes_before = 0;  // when it first ran, bodies and functions included
  int nodes_after = 0;   // when it last did
  double seconds = 0;
  // Why its changes were undone; then it is not run again. Empty: they stand.
  std::string undone;
};

struct DriverReport {
  std::vector<PassReport> passes;
  std::vector<NearMiss> misses;  // each once
  int changes = 0;               // of those that stand
  int rounds = 0;
  int nodes_before = 0, nodes_after = 0;
  bool settled = true;  // false: still changing after the last round allowed
};

struct DriverOptions {
  PassOptions pass;
  int max_rounds = 10;
  bool explain = false;           // collect near misses
  std::optional<int> stop_after;  // changes, over all passes: to find the one that is at fault
  // Whether the model still answers as it should; nullopt: it does, else what is wrong. Called after each pass that
  // changed something.
  std::function<StatusOr<std::optional<std::string>>(const Model& model)> verify;
  // Called after each pass that changed something and stands.
  std::function<Status(const Pass& pass, int round, const Model& model)> after;
};

// The model's types must have been inferred. BugError when a pass breaks the graph; the model is then unusable.
StatusOr<DriverReport> RunPasses(Model& model, const std::vector<const Pass*>& passes, const DriverOptions& options);

// Live nodes, bodies and functions included; Constant nodes, which are weights, are not.
int CountNodes(const Model& model);

}  // namespace quant
