// Integer activations: --activations, --calib, --io, --no-fuse, and the report of which nodes run in integers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/lint/lint.h"
#include "libquant/report/report.h"
#include "libquant/search/improve.h"
#include "passes/quant/static_quant.h"
#include "tools/args.h"
#include "tools/argument_groups.h"
#include "tools/calib_args.h"

namespace quant {

class IntegerArgs {
 public:
  // `words` and `lists` take the words of options that a file may hold too, by key.
  void Declare(Args& args, std::map<std::string, std::string>& words,
               std::map<std::string, std::vector<std::string>>& lists);
  // UsageError for what does not go together.
  Status Check(const Args& args, const QuantizeOptions& options, bool auto_given);
  // Activations become codes at ranges that are known beforehand.
  bool used() const { return used_; }
  // The file or folder that ranges come from, if it is one.
  std::optional<std::string> file() const { return calib_ && !calib_->starts_with("random:") ? calib_ : std::nullopt; }

  // Fusions and opset, before anything is planned.
  Status Prepare(Model& model, const QuantizeOptions& options) const;
  // Plans which nodes run in integers and, unless `plan_only`, finds the ranges of what they read and make. The
  // options' improvements that help change weights and biases of the model.
  Status FindRanges(const Args& args, const std::string& path, Model& model, const QuantizePlan& weights,
                    const QuantizeOptions& options, bool quiet, bool plan_only);
  // DataError when the target does not take what comes of it.
  Status Apply(Model& model, const QuantizeOptions& options, QuantizePlan& weights);
  void AddTo(Report& report) const;

 private:
  // A node with what the report says of it.
  struct Row {
    std::string verdict, node, op_type, reason;
  };

  void AddImprovements(Report& report) const;
  void AddFindings(Report& report) const;

  std::optional<std::string> calib_;
  MethodArgs method_;
  SampleArgs samples_;
  int64_t samples_run_ = 0;  // 0: the ranges come from a file
  bool no_fuse_ = false;
  bool used_ = false;
  IntegerPlan plan_;
  ValueRanges ranges_;
  std::vector<TriedImprovement> tried_;
  PlacedQuantizers placed_;
  std::vector<Finding> findings_;  // of the finished model
  std::vector<Row> rows_;
  std::map<NodeId, size_t> row_of_;
};

}  // namespace quant
