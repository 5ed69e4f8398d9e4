#include "tools/integer_args.h"

#include <algorithm>

#include "libquant/calib/calibration.h"
#include "libquant/calib/ranges_file.h"
#include "libquant/model/expand_operators.h"
#include "libquant/numerics/format.h"
#include "tools/argument_groups.h"
#include "tools/progress.h"

namespace quant {
namespace {

std::vector<std::string> ActivationWords() {
  std::vector<std::string> words = {"none", "dynamic"};
  for (const Format& format : AllFormats()) {
    if (format.bits >= 8) words.emplace_back(format.name);
  }
  return words;
}

}  // namespace

void IntegerArgs::Declare(Args& args, std::map<std::string, std::string>& words,
                          std::map<std::string, std::vector<std::string>>& lists) {
  args.Group("Activations");
  args.Choice(
      "--activations", ActivationWords(), &words["activations"],
      "what runs in integers reads codes: of this format, at ranges measured on --calib, or dynamic, at the range "
      "of each run; default none: activations stay float. Weights are then of 8 bits, by channel");
  args.Value("--calib", "SAMPLES", &calib_,
             "samples to measure ranges on, as --data takes them, random:N, or a file of ranges written by "
             "`nibble calibrate`");
  method_.Declare(args, "calib-", false);
  args.Value("--improve", "HELPER", &lists["improve"],
             "equalize (reach of the weights of neighbouring layers), balance or balance=ALPHA (SmoothQuant: what "
             "activations vary between channels goes into weights; ALPHA 0 to 1, default 0.5), correct-bias (what "
             "rounding weights shifts means by), or all of them: measured on the samples of --calib and kept where the "
             "worst output's SQNR gets better; may be repeated, in the order of trying");
  args.Choice("--io", {"float", "integer"}, &words["io"],
              "type of the model's inputs and outputs where codes are read or made; default float");
  args.Flag("--no-fuse", &no_fuse_, "quantize the graph as it is, without running the default passes first");
}

Status IntegerArgs::Check(const Args& args, const QuantizeOptions& options, bool auto_given) {
  used_ = IsStatic(options);
  if (!used_) {
    for (const char* option : {"--calib", "--no-fuse"}) {
      if (args.Given(option)) return UsageError("{} has no effect without --activations FORMAT", option);
    }
    if (method_.given(args))
      return UsageError("--calib-method and the like have no effect without --activations FORMAT");
    return OkStatus();
  }
  if (auto_given) return UsageError("--auto and --budget choose formats of weights: they don't go with --activations");
  if (calib_ && !NamesRanges(*calib_)) return samples_.Take(*calib_);
  return OkStatus();
}

Status IntegerArgs::Prepare(Model& model, const QuantizeOptions& options) const {
  return used_ ? PrepareForIntegers(model, options, !no_fuse_) : OkStatus();
}

Status IntegerArgs::FindRanges(const Args& args, const std::string& path, Model& model, const QuantizePlan& weights,
                               const QuantizeOptions& options, bool quiet, bool plan_only) {
  if (!used_) return OkStatus();
  ASSIGN_OR_RETURN(plan_, PlanIntegers(model, weights, options));
  const auto add = [&](NodeId id, std::string verdict, std::string reason) {
    row_of_[id] = rows_.size();
    rows_.push_back({std::move(verdict), model.graph.NodeLabel(id), model.graph.node(id).op_type, std::move(reason)});
  };
  for (const IntegerNode& n : plan_.nodes) add(n.node, "integer", n.float_output ? "float output" : "");
  for (const FloatNode& n : plan_.left) add(n.node, "float", n.reason);
  if (plan_only) return OkStatus();
  if (!calib_) {
    return UsageError("--calib is missing: samples to measure the ranges of {} activations on", options.activations);
  }
  ASSIGN_OR_RETURN(RangeOptions range, method_.Options(args));
  if (NamesRanges(*calib_)) {
    if (method_.given(args))
      return UsageError("{} holds ranges already: --calib-method and the like have no effect", *calib_);
    if (!options.improve.empty())
      return UsageError("{} holds ranges: --improve needs samples to measure on (--calib SAMPLES)", *calib_);
    ASSIGN_OR_RETURN(RangesFile file, ReadRanges(*calib_));
    ranges_ = std::move(file.ranges);
    return OkStatus();
  }
  range.bits = FindFormat(options.activations)->bits;
  Model runnable = model;
  RETURN_IF_ERROR(WithContext(ExpandOperators(runnable), path));
  ASSIGN_OR_RETURN(const std::unique_ptr<SampleSource> source, samples_.Open(runnable));
  Progress progress(options.improve.empty() ? "calibrating" : "improving", quiet);
  const auto update = [&](int64_t done, int64_t all) { progress.Update(done, all); };
  if (!options.improve.empty()) {
    ASSIGN_OR_RETURN(Improved improved, ImproveIntegers(path, model, weights, plan_, options, *source, range, update));
    ranges_ = std::move(improved.ranges);
    tried_ = std::move(improved.tried);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const Calibration calibration,
                   Calibrate(runnable, RangesWanted(model, plan_), *source, range, update));
  ASSIGN_OR_RETURN(ranges_, calibration.Ranges(options.non_finite));
  samples_run_ = calibration.samples;
  return OkStatus();
}

Status IntegerArgs::Apply(Model& model, const QuantizeOptions& options, QuantizePlan& weights) {
  ASSIGN_OR_RETURN(placed_, ApplyIntegers(model, options, weights, plan_, ranges_));
  for (const IntegerNote& note : placed_.notes) {
    const auto found = row_of_.find(note.node);
    if (found == row_of_.end()) continue;
    std::string& reason = rows_[found->second].reason;
    reason += (reason.empty() ? "" : "; ") + note.text;
  }
  findings_ = LintQuantizers(model, options.target);
  for (const Finding& finding : findings_) {
    if (finding.severity == Severity::kError) {
      return DataError("the quantized model would not suit {}: {} ({})", options.target.name, finding.what,
                       finding.where.front());
    }
  }
  return OkStatus();
}

void IntegerArgs::AddTo(Report& report) const {
  ReportSection section{"Nodes", {}, true};
  ReportTable table{{"runs in", "node", "operator", "note"}, {}};
  Json json = Json::Array();
  int64_t integer = 0;
  for (const Row& row : rows_) {
    table.rows.push_back({row.verdict, row.node, row.op_type, row.reason});
    json.Append(Json::Object()
                    .Set("node", row.node)
                    .Set("op_type", row.op_type)
                    .Set("runs_in", row.verdict)
                    .Set("note", row.reason));
    integer += row.verdict == "integer";
  }
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
  section.blocks.emplace_back(
      fmt::format("{} of {} nodes run in integers; {} values are quantized, {} Relu and Clip absorbed", integer,
                  rows_.size(), plan_.quantized.size(), placed_.absorbed));
  report.sections.push_back(std::move(section));
  report.data.Set("integer_nodes", json);
  if (!findings_.empty()) AddFindings(report);
  if (!tried_.empty()) AddImprovements(report);
}

void IntegerArgs::AddFindings(Report& report) const {
  ReportTable table{{"finding", "where"}, {}};
  Json json = Json::Array();
  for (const Finding& finding : findings_) {
    for (const std::string& where : finding.where) {
      table.rows.push_back({std::string(KindOf(finding.finding).id), where});
      json.Append(Json::Object().Set("finding", std::string(KindOf(finding.finding).id)).Set("where", where));
    }
  }
  ReportSection section{"Quantizers and the target", {}, true};
  section.blocks.emplace_back(std::move(table));
  report.sections.push_back(std::move(section));
  report.data.Set("findings", json);
}

void IntegerArgs::AddImprovements(Report& report) const {
  ReportTable table{{"improvement", "places", "dB without", "dB with", "verdict"}, {}};
  Json json = Json::Array();
  for (const TriedImprovement& tried : tried_) {
    const std::string verdict = tried.places == 0 ? "nothing to change" : tried.kept ? "kept" : "no help: left out";
    table.rows.push_back({tried.what.Label(), fmt::format("{}", tried.places), fmt::format("{:.2f}", tried.without),
                          tried.places == 0 ? "" : fmt::format("{:.2f}", tried.with), verdict});
    json.Append(Json::Object()
                    .Set("improvement", tried.what.Label())
                    .Set("places", static_cast<int64_t>(tried.places))
                    .Set("base_sqnr_db", tried.without)
                    .Set("sqnr_db", tried.with)
                    .Set("kept", tried.kept));
  }
  ReportSection section{"Improvements", {}, true};
  section.blocks.emplace_back(std::move(table));
  report.sections.push_back(std::move(section));
  report.data.Set("improvements", json);
}

}  // namespace quant
