// --max-size-ratio, --max-bytes, --max-drop, --min-sqnr, and the report of a sweep that is held against them.
#pragma once

#include "libquant/search/sweep_report.h"
#include "tools/argument_groups.h"
#include "tools/gate_args.h"

namespace quant {

class LimitArgs {
 public:
  // Gates too: they hold for the recommended configuration.
  void Declare(Args& args);
  // Before any work: UsageError for limits that make no sense, or, without labels, need them.
  Status Check(bool labels, bool labels_known = true);
  bool given() const { return limits_.any() || gates_.given(); }
  // Emits the report and says whether limits and gates are met.
  Status Emit(const SweepResults& results, const CommonArgs& common) const;
  // Options that the report names beside the sweep's own.
  static bool IsLimit(const std::string& name);

 private:
  std::vector<std::pair<std::string, std::string>> Words() const;
  SweepLimits limits_;
  GateArgs gates_;
};

}  // namespace quant
