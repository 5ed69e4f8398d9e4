// Running passes, as several tools do: --target, --explain, --timing, --dump-after, --stop-after, --verify, and the
// report of what was done.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libquant/report/json.h"
#include "passes/driver.h"
#include "tools/args.h"
#include "tools/argument_groups.h"

namespace quant {

class PassArgs {
 public:
  // `choosing`: the tool lets the user choose the passes (--pipeline, --passes, --list-passes). One that does not has a
  // --dim of its own.
  void Declare(Args& args, bool choosing);
  Status Check(const Args& args) const;

  bool list_wanted() const { return list_; }
  std::string List() const;
  Json ListJson() const;

  const std::string& target() const { return target_; }
  // Those of --passes or --pipeline, else of the pipeline named.
  StatusOr<std::vector<const Pass*>> Chosen(const std::string& otherwise) const;
  // Runs them. With --verify, answers are compared on the samples of --data or --random, else on one random sample.
  StatusOr<DriverReport> Run(Model& model, const std::vector<const Pass*>& passes) const;

  std::string Text(const DriverReport& report) const;
  Json ToJson(const DriverReport& report) const;

 private:
  std::string target_ = "portable", pipeline_;
  std::vector<std::string> passes_;
  bool list_ = false, explain_ = false, timing_ = false, verify_ = false;
  std::optional<std::string> dump_after_, dump_folder_;
  std::optional<int64_t> stop_after_;
  std::optional<int64_t> fold_limit_;
  SampleArgs samples_;
};

}  // namespace quant
