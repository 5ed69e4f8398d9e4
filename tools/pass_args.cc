#include "tools/pass_args.h"

#include <filesystem>

#include "libquant/model/write.h"
#include "libquant/report/table.h"
#include "libquant/verify/same_answers.h"
#include "passes/pipeline.h"
#include "tools/units.h"

namespace quant {
namespace {

// The file OUT_FOLDER/ROUND_PASS.onnx.
Status DumpModel(const std::string& folder, const Pass& pass, int round, const Model& model) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return OutputError("{}: {}", folder, error.message());
  const std::string path = fmt::format("{}/{:02}_{}.onnx", folder, round, pass.name);
  return WriteModel(model, path).status();
}

std::string Count(int n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

}  // namespace

void PassArgs::Declare(Args& args, bool choosing) {
  args.Group("Passes");
  args.Choice("--target", TargetNames(), &target_,
              "runtime the model is for, which says what operators passes may make; default portable");
  if (choosing) {
    args.Value("--pipeline", "NAME", &pipeline_,
               fmt::format("list of passes to run: {}, or a file NAME.yaml; default default",
                           fmt::join(PipelineNames(), ", ")));
    args.Value("--passes", "NAME", &passes_, "run this pass instead; may be repeated, and the order counts");
    args.Flag("--list-passes", &list_, "say which passes there are, and end");
  }
  args.Value("--fold-limit", "BYTES", &fold_limit_,
             "largest constant that folding may add; default 1 MiB. What takes the place of its own inputs may be "
             "larger");
  args.Group("Looking inside");
  args.Flag("--explain", &explain_, "for each node that a pass nearly changed, say which condition did not hold");
  args.Flag("--timing", &timing_, "say how long each pass took");
  args.Value("--dump-after", "NAME", &dump_after_,
             "write the model after each run of this pass that changed it; all for any");
  args.Value("--dump-to", "FOLDER", &dump_folder_, "where --dump-after writes ROUND_PASS.onnx");
  args.Value("--stop-after", "N", &stop_after_, "stop after N changes: to find the one that is at fault");
  args.Flag("--verify", &verify_,
            "run the model before and after each pass, on the samples given or on a random one, and undo a pass whose "
            "answers differ by more than a relative RMS of 1e-5");
  samples_.Declare(args, choosing);
}

Status PassArgs::Check(const Args& args) const {
  RETURN_IF_ERROR(samples_.Check(args, false));
  if (samples_.given() && !verify_) return UsageError("samples have no effect without --verify");
  if (dump_after_.has_value() != dump_folder_.has_value()) {
    return UsageError("--dump-after and --dump-to go together: after which pass, and the folder for the models");
  }
  if (dump_after_ && *dump_after_ != "all" && FindPass(*dump_after_) == nullptr) {
    return UsageError("--dump-after {}: there is no such pass; --list-passes says which there are", *dump_after_);
  }
  if (stop_after_ && *stop_after_ < 0) return UsageError("--stop-after is 0 or more");
  if (fold_limit_ && *fold_limit_ < 0) return UsageError("--fold-limit is 0 or more");
  if (!passes_.empty() && !pipeline_.empty()) return UsageError("--passes and --pipeline: one of them says what runs");
  return OkStatus();
}

std::string PassArgs::List() const {
  Table table({"pass", "does"});
  for (const Pass* pass : AllPasses()) table.AddRow({std::string(pass->name), std::string(pass->summary)});
  return table.Render();
}

Json PassArgs::ListJson() const {
  Json passes = Json::Array();
  for (const Pass* pass : AllPasses()) {
    passes.Append(Json::Object().Set("pass", pass->name).Set("does", pass->summary));
  }
  return Json::Object().Set("schema_version", 1).Set("passes", passes);
}

StatusOr<std::vector<const Pass*>> PassArgs::Chosen(const std::string& otherwise) const {
  if (!passes_.empty()) return PassesNamed(passes_);
  return ReadPipeline(pipeline_.empty() ? otherwise : pipeline_);
}

StatusOr<DriverReport> PassArgs::Run(Model& model, const std::vector<const Pass*>& passes) const {
  DriverOptions options;
  ASSIGN_OR_RETURN(options.pass.target, FindTarget(target_));
  if (fold_limit_) options.pass.max_constant_bytes = *fold_limit_;
  options.explain = explain_;
  if (stop_after_) options.stop_after = static_cast<int>(std::min<int64_t>(*stop_after_, INT32_MAX));
  if (dump_after_) {
    options.after = [this](const Pass& pass, int round, const Model& now) {
      if (*dump_after_ != "all" && *dump_after_ != pass.name) return OkStatus();
      return DumpModel(*dump_folder_, pass, round, now);
    };
  }
  std::optional<SameAnswers> answers;
  if (verify_) {
    ASSIGN_OR_RETURN(const auto source, samples_.OpenOrOneRandom(model));
    ASSIGN_OR_RETURN(answers, SameAnswers::Of(model, *source));
    options.verify = [&answers](const Model& now) { return answers->Check(now); };
  }
  return RunPasses(model, passes, options);
}

std::string PassArgs::Text(const DriverReport& report) const {
  std::vector<std::string> headings = {"pass", "changes", "nodes"};
  if (timing_) headings.emplace_back("ms");
  Table table(headings);
  std::string undone;
  for (const PassReport& p : report.passes) {
    const std::string name(p.pass->name);
    if (!p.undone.empty()) undone += fmt::format("undone: {}: {}\n", name, p.undone);
    if (p.changes == 0 && !timing_) continue;
    std::vector<std::string> row = {name, Grouped(p.changes), fmt::format("{} -> {}", p.nodes_before, p.nodes_after)};
    if (timing_) row.push_back(fmt::format("{:.1f}", p.seconds * 1e3));
    table.AddRow(std::move(row));
  }
  std::string out = table.rows() > 0 ? table.Render() + "\n" : "";
  out += undone;
  out += fmt::format("{} -> {} nodes, {} in {}\n", report.nodes_before, report.nodes_after,
                     Count(report.changes, "change"), Count(report.rounds, "round"));
  if (!report.settled) out += "passes were still changing the model after the last round\n";
  if (!explain_) return out;
  Table misses({"near miss", "node", "why"});
  for (const NearMiss& m : report.misses) misses.AddRow({m.pass, Shortened(m.node, 48), m.reason});
  return out + "\n" + (misses.rows() > 0 ? misses.Render() : "no near misses\n");
}

Json PassArgs::ToJson(const DriverReport& report) const {
  Json passes = Json::Array(), misses = Json::Array();
  for (const PassReport& p : report.passes) {
    Json row = Json::Object();
    row.Set("pass", p.pass->name).Set("changes", p.changes).Set("nodes_before", p.nodes_before);
    row.Set("nodes_after", p.nodes_after);
    if (timing_) row.Set("seconds", p.seconds);
    row.Set("undone", p.undone.empty() ? Json() : Json(p.undone));
    passes.Append(row);
  }
  for (const NearMiss& m : report.misses) {
    misses.Append(Json::Object().Set("pass", m.pass).Set("node", m.node).Set("why", m.reason));
  }
  Json out = Json::Object();
  out.Set("target", target_).Set("nodes_before", report.nodes_before).Set("nodes_after", report.nodes_after);
  out.Set("changes", report.changes).Set("rounds", report.rounds).Set("settled", report.settled);
  out.Set("passes", passes);
  if (explain_) out.Set("near_misses", misses);
  return out;
}

}  // namespace quant
