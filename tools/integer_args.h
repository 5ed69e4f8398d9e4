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
#include "tools/argument_groups.h"
#include "tools/calib_args.h"

namespace quant {

class IntegerArgs {
 public:
  // `words` takes the words of options that a file may hold too, by key.
  void Declare(Args& args, std::map<std::string, std::string>& words);
  // UsageError for what does not go together.
  Status Check(const Args& args, const QuantizeOptions& options, bool auto_given);
  // Activations become codes at ranges that are known beforehand.
  bool used() const { return used_; }
  // The file or folder that ranges come from, if it is one.
  std::optional<std::string> file() const { return calib_ && !calib_->starts_with("random:") ? calib_ : std::nullopt; }

  // Fusions and opset, before anything is planned.
  Status Prepare(Model& model, const QuantizeOptions& options) const;
  // Plans which nodes run in integers and, unless `plan_only`, finds the ranges of what they read and make.
  Status FindRanges(const Args& args, const std::string& path, const Model& model, const QuantizePlan& weights,
                    const QuantizeOptions& options, bool quiet, bool plan_only);
  Status Apply(Model& model, const QuantizeOptions& options, QuantizePlan& weights);
  void AddTo(Report& report) const;

 private:
  // A node with what the report says of it.
  struct Row {
    std::string verdict, node, op_type, reason;
  };

  std::optional<std::string> calib_;
  MethodArgs method_;
  SampleArgs samples_;
  int64_t samples_run_ = 0;  // 0: the ranges come from a file
  bool no_fuse_ = false;
  bool used_ = false;
  IntegerPlan plan_;
  ValueRanges ranges_;
  PlacedQuantizers placed_;
  std::vector<Row> rows_;
  std::map<NodeId, size_t> row_of_;
};

}  // namespace quant
