// Integer activations: --activations, --calib, --io, --no-fuse, and the report of which nodes run in integers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/report/report.h"
#include "passes/quant/static_quant.h"
#include "tools/args.h"

namespace quant {

class IntegerArgs {
 public:
  // `words` takes the words of options that a file may hold too, by key.
  void Declare(Args& args, std::map<std::string, std::string>& words);
  // UsageError for what does not go together.
  Status Check(const Args& args, const QuantizeOptions& options, bool auto_given);
  // Activations become codes at ranges that are known beforehand.
  bool used() const { return used_; }

  // Fusions and opset, before anything is planned.
  Status Prepare(Model& model, const QuantizeOptions& options) const;
  // Plans which nodes run in integers and, unless `plan_only`, finds the ranges of what they read and make.
  Status FindRanges(const std::string& path, const Model& model, const QuantizePlan& weights,
                    const QuantizeOptions& options, bool quiet, bool plan_only);
  Status Apply(Model& model, const QuantizeOptions& options, QuantizePlan& weights);
  void AddTo(Report& report) const;

 private:
  // A node with what the report says of it.
  struct Row {
    std::string verdict, node, op_type, reason;
  };

  std::optional<std::string> calib_;
  std::string method_ = "minmax";
  bool no_fuse_ = false;
  bool used_ = false;
  IntegerPlan plan_;
  ValueRanges ranges_;
  PlacedQuantizers placed_;
  std::vector<Row> rows_;
  std::map<NodeId, size_t> row_of_;
};

}  // namespace quant
