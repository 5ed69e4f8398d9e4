#include "libquant/search/sweep_file.h"
#include "tools/argument_groups.h"
#include "tools/limit_args.h"
#include "tools/tool.h"

namespace quant {
namespace {

class ReportTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"report",
            "merge the results of a sweep's shards into one report",
            "`merge` reads the files that `nibble sweep --shard I/N --results FILE` wrote, one for each shard, in any "
            "order, and makes the report that the sweep in one process would have made, byte for byte. Shards of "
            "different sweeps, missing, doubled and unfinished ones are errors. Limits and gates are given here.",
            {"nibble report merge shard1.jsonl shard2.jsonl shard3.jsonl --report sweep.html",
             "nibble report merge shard*.jsonl --max-drop 1 --gate 'size.ratio<=0.3'"}};
  }

  void Declare(Args& args) override {
    args.Positional("ACTION", &action_, "merge");
    args.Positionals("FILES", &files_, "files of results");
    limits_.Declare(args);
    common_.DeclareRendered(args);
  }

  Status Run(const Args& /*args*/) override {
    if (action_ != "merge") return UsageError("report does merge, not '{}'", action_);
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(limits_.Check(true));
    if (common_.report()) RETURN_IF_ERROR(CheckOutputs({*common_.report()}, {}, std::nullopt));
    std::vector<SweepResults> parts;
    for (const std::string& file : files_) {
      ASSIGN_OR_RETURN(parts.emplace_back(), ReadSweepResults(file));
    }
    ASSIGN_OR_RETURN(const SweepResults merged, MergeShards(std::move(parts), files_));
    return limits_.Emit(merged, common_);
  }

 private:
  std::string action_;
  std::vector<std::string> files_;
  LimitArgs limits_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeReport() { return std::make_unique<ReportTool>(); }

}  // namespace quant
