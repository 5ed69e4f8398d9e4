// --gate EXPR and --baseline FILE: what a report must hold to.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/report/gate.h"
#include "libquant/report/report.h"
#include "tools/args.h"

namespace quant {

class GateArgs {
 public:
  void Declare(Args& args);
  // The same in a config file.
  void Add(const std::string& gate) { texts_.push_back(gate); }
  // Before any work is done: UsageError for a gate that does not parse or names a metric that this run won't measure;
  // `unmeasured` maps those to what would measure them. DataError for a baseline that is no report.
  Status Parse(const std::map<std::string, std::string>& unmeasured);
  // Adds the verdicts, and with a baseline a section that shows both.
  Status Judge(Report& report) const;
  // GateError naming what is not met.
  static Status Verdict(const Report& report);
  const std::optional<std::string>& baseline() const { return baseline_path_; }
  bool given() const { return !texts_.empty() || baseline_path_; }

 private:
  std::vector<std::string> texts_;
  std::optional<std::string> baseline_path_;
  std::vector<Gate> gates_;
  std::optional<Measures> baseline_;
};

}  // namespace quant
